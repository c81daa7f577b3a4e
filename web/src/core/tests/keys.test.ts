import { expect, test } from "vitest";
import { Keys, type Key } from "../keys";

const key = (k: string, more: Partial<Key> = {}): Key => ({ key: k, ctrl: false, alt: false, typing: false, ...more });

test("keys act, except while somebody types or when they are switched off", () => {
  const keys = new Keys();
  expect(keys.press(key("g"), 0)).toBeNull();
  expect(keys.press(key("j"), 500)).toEqual({ does: "go", to: "/jobs" });
  expect(keys.press(key("j"), 600)).toEqual({ does: "next" });
  keys.press(key("g"), 1000);
  expect(keys.press(key("n"), 9000)).toBeNull();
  expect(keys.press(key("/", { typing: true }), 0)).toBeNull();
  expect(keys.press(key("k", { ctrl: true, typing: true }), 0)).toEqual({ does: "palette" });
  keys.switchTo(false);
  expect(keys.press(key("?"), 0)).toBeNull();
  expect(keys.press(key("k", { ctrl: true }), 0)).toEqual({ does: "palette" });
});
