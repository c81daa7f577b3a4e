// The fields of the inspector: what is typed, and the value that it means.
import type { Field, FieldType } from "./types";

export type Read = { value: unknown } | { problem: string };

/** json says whether a value is edited as JSON, because the field's own form cannot show it. */
export function json(type: FieldType, value: unknown): boolean {
  if (value === undefined || value === null) return type === "any";
  switch (type) {
    case "any": return true;
    case "list": return !(Array.isArray(value) && value.every((v) => typeof v === "string" && !v.includes("\n") && v.trim() === v && v !== "" && !/^[[{"]/.test(v)));
    case "map":
    case "bindings": return !(typeof value === "object" && !Array.isArray(value) && Object.entries(value).every(([k, v]) => typeof v === "string" && !v.includes("\n") && !/[=\n]/.test(k) && k.trim() === k && k !== ""));
    case "bool": return typeof value !== "boolean";
    case "int":
    case "duration": return typeof value !== "number" && typeof value !== "string";
    default: return typeof value !== "string";
  }
}

/** write is the text of a value in its field. */
export function write(type: FieldType, value: unknown): string {
  if (value === undefined || value === null) return "";
  if (json(type, value)) return JSON.stringify(value, null, 2);
  if (type === "list") return (value as string[]).join("\n");
  if (type === "map" || type === "bindings") return Object.entries(value as Record<string, string>).map(([k, v]) => `${k} = ${v}`).join("\n");
  return String(value);
}

/** read is the value of a text; asJson when the field shows JSON. Nothing typed is no value. */
export function read(f: Field, text: string, asJson: boolean): Read {
  if (text.trim() === "") return { value: undefined };
  if (asJson || f.type === "any") {
    try {
      return { value: JSON.parse(text) };
    } catch (err) {
      // A text that is one place stands for a whole value.
      if (/^\{\{[^{}]*\}\}$/.test(text.trim())) return { value: text.trim() };
      return { problem: `This is no JSON yet: ${(err as Error).message.replace(/^JSON\.parse: /, "")}` };
    }
  }
  switch (f.type) {
    case "int": {
      if (!/^-?\d+$/.test(text.trim())) return { problem: "Write a whole number." };
      const n = Number(text);
      if (f.min !== undefined && n < f.min || f.max !== undefined && n > f.max) return { problem: `Write a number from ${f.min ?? 0} to ${f.max}.` };
      return { value: n };
    }
    case "duration": {
      const t = text.trim();
      if (/^\d+$/.test(t)) return { value: Number(t) };
      return /^(\d+(\.\d+)?(ms|s|m|h|d|w))+$/.test(t) ? { value: t } : { problem: "Write a time such as 90s, 5m, 2h or 7d." };
    }
    case "name":
      return /^[A-Za-z_][A-Za-z0-9_]{0,62}$/.test(text.trim()) ? { value: text.trim() } : { problem: "A name has letters, digits and _, and does not begin with a digit." };
    case "list":
      return { value: text.split("\n").map((l) => l.trim()).filter(Boolean) };
    case "map":
    case "bindings": {
      const all: Record<string, string> = {};
      for (const line of text.split("\n")) {
        if (line.trim() === "") continue;
        const at = line.indexOf("=");
        if (at <= 0) return { problem: "Write name = value, one on each line." };
        all[line.slice(0, at).trim()] = line.slice(at + 1).trim();
      }
      return { value: all };
    }
    default:
      return { value: text };
  }
}
