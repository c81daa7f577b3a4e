/** browserOf names the browser and the system in a header User-Agent; what it does not know it leaves as it is. */
export function browserOf(agent: string): string {
  const browser = [["Edg/", "Edge"], ["Firefox/", "Firefox"], ["HeadlessChrome/", "Chrome"], ["Chrome/", "Chrome"], ["Safari/", "Safari"]].find(([sign]) => agent.includes(sign!))?.[1];
  const system = [["Windows", "Windows"], ["iPhone", "iOS"], ["Android", "Android"], ["Mac OS", "macOS"], ["Linux", "Linux"]].find(([sign]) => agent.includes(sign!))?.[1];
  if (browser && system) return `${browser} on ${system}`;
  return agent || "–";
}
