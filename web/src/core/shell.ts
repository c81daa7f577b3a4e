// The line of the command line that does what a page does.

/** quote writes one argument so that a POSIX shell reads it as it is. */
export function quote(word: string): string {
  if (word !== "" && /^[A-Za-z0-9_@%+=:,./-]+$/.test(word)) return word;
  return `'${word.replaceAll("'", `'\\''`)}'`;
}

/** line joins words to a command. */
export function line(...words: (string | false | null | undefined)[]): string {
  return words.filter((w): w is string => typeof w === "string").map(quote).join(" ");
}

/** curl writes a request of the API. The token and the address stay in variables. */
export function curl(method: string, path: string, body?: unknown): string {
  const parts = ["curl -sS -H \"Authorization: Bearer $MIND_TOKEN\""];
  if (method !== "GET") parts.push(`-X ${method}`);
  parts.push(`"$MIND_ADDR"${quote(path)}`);
  if (body !== undefined) parts.push(`-d ${quote(JSON.stringify(body))}`);
  return parts.join(" ");
}

/** yaml writes plain data as YAML that any parser reads back the same. */
export function yaml(value: unknown, indent = 0): string {
  const pad = "  ".repeat(indent);
  if (Array.isArray(value)) {
    if (value.every((v) => typeof v !== "object" || v === null)) return `[${value.map(scalar).join(", ")}]`;
    return value.map((v) => `\n${pad}- ${yaml(v, indent + 1).trimStart()}`).join("");
  }
  if (typeof value === "object" && value !== null) {
    const lines = Object.entries(value)
      .filter(([, v]) => v !== undefined)
      .map(([k, v]) => {
        const text = yaml(v, indent + 1);
        const nested = typeof v === "object" && v !== null && !text.startsWith("[") && text !== "{}";
        return `${pad}${scalar(k)}:${nested ? (text.startsWith("\n") ? text : "\n" + text) : " " + text}`;
      });
    return lines.length === 0 ? "{}" : lines.join("\n");
  }
  return scalar(value);
}

// A string is quoted unless it can only be read as the same string.
function scalar(value: unknown): string {
  if (typeof value !== "string") return JSON.stringify(value ?? null);
  const plain = /^[A-Za-z_/][A-Za-z0-9_./-]*$/.test(value);
  return plain && !/^(true|false|null|yes|no|on|off|y|n)$/i.test(value) ? value : JSON.stringify(value);
}
