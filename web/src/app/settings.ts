// What this browser remembers: the theme, and whether single keys act.
import { createSignal } from "solid-js";

export type Theme = "system" | "light" | "dark";

const [theme, set] = createSignal<Theme>((localStorage.getItem("mind.theme") as Theme | null) ?? "system");
const [keysOn, setOn] = createSignal(localStorage.getItem("mind.keys") !== "off");

export { theme, keysOn };

export function applyTheme(): void {
  if (theme() === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme();
  dispatchEvent(new Event("themechange"));
}

export function setTheme(t: Theme): void {
  set(t);
  localStorage.setItem("mind.theme", t);
  applyTheme();
}

export function setKeysOn(on: boolean): void {
  setOn(on);
  localStorage.setItem("mind.keys", on ? "on" : "off");
}
