import { describe, expect, test } from "vitest";
import { parse, safe, strip } from "../ansi";
import { Lines } from "../lines";

describe("text for terminals", () => {
  test("has its colours and weights as classes", () => {
    expect(parse("a \x1b[1;31mred\x1b[0m b \x1b[38;5;208mx\x1b[38;2;1;2;300my\x1b[m")).toEqual([
      { text: "a ", look: "", colour: "", href: "" },
      { text: "red", look: "bold f1", colour: "", href: "" },
      { text: " b ", look: "", colour: "", href: "" },
      { text: "x", look: "", colour: "#ff8700", href: "" },
      { text: "y", look: "", colour: "#0102ff", href: "" },
    ]);
  });
  test("loses every other control", () => {
    expect(strip("\x1b]8;;javascript:alert(1)\x07click\x1b]8;;\x07 \x1b[2Kx\x1b(B\x00\x9b\x1b]0;title\x1b\\y\x1bPq\x1b\\z")).toBe("click xyz");
    expect(strip("unfinished \x1b[31")).toBe("unfinished 31");
  });
  test("shows the last state of a line that overwrites itself", () => {
    expect(strip(" 10%\r 50%\r100%\r")).toBe("100%");
  });
  test("links to http and https alone, without credentials", () => {
    expect(parse("see https://a.example/x?y=1). javascript:alert(1) http://u:p@h/").filter((p) => p.href).map((p) => p.href)).toEqual(["https://a.example/x?y=1"]);
    expect(safe("data:text/html,x")).toBe(false);
  });
});

describe("the lines of a log", () => {
  const line = (text: string) => ({ text, at: "", rank: 0, attempt: 1, stream: "stdout", level: "INFO" });
  test("are found as they come", () => {
    const l = new Lines();
    for (let i = 0; i < 10; i++) l.add(line(`step ${i}`));
    l.search("STEP 7");
    expect(l.slice(0, 10).map((x) => x.text)).toEqual(["step 7"]);
    l.add(line("\x1b[31mste\x1b[0mp 71"));
    expect(l.size).toBe(2);
    l.search("");
    expect(l.size).toBe(11);
  });
  test("are bounded, and the newest stay", () => {
    const l = new Lines(100);
    l.search("x");
    for (let i = 0; i < 1000; i++) l.add(line(i % 2 ? "x" : "y"));
    l.search("");
    expect(l.size).toBeLessThanOrEqual(110);
    expect(l.size + l.dropped).toBe(1000);
    expect(l.slice(0, 1)[0]!.n).toBe(l.dropped);
    l.search("x");
    expect(l.slice(0, 5).every((x) => x.text === "x")).toBe(true);
  });
  test("a hundred thousand are taken in a moment", () => {
    const l = new Lines();
    for (let i = 0; i < 100_000; i++) l.add(line(`step ${i} loss 0.5`));
    l.search("99999");
    expect(l.size).toBe(1);
  });
});
