// Forms made from JSON Schemas: one control per property, and JSON where a schema says no more.
import { type Signal, useSignal } from "@preact/signals";
import { useId } from "preact/hooks";
import { type Fields, type Json, fields, text } from "./view";
import { plain } from "./format";

export interface Field {
  name: string;
  label: string;
  schema: Fields;
  required: boolean;
  initial?: Json;
  hint?: string;
}

/** What is in a control: a value, or the reason why it is none. */
export type Entry = { value: Json | undefined } | { wrong: string };

/** The controls of a form, and the signal that holds what they say. */
export function Form({ list, values }: { list: Field[]; values: Signal<Record<string, Entry>> }) {
  return (
    <div class="form">
      {list.map((field) => (
        <Control
          key={field.name}
          field={field}
          onChange={(entry) => (values.value = { ...values.value, [field.name]: entry })}
        />
      ))}
    </div>
  );
}

/** The values of a form, or the first thing that is wrong with them. */
export function read(list: Field[], entries: Record<string, Entry>): Fields | string {
  const found: Fields = {};
  for (const field of list) {
    const label = plain(field.label);
    // A box that was not touched says no.
    const start = field.schema.type === "boolean" && field.required ? false : undefined;
    const entry = entries[field.name] ?? { value: field.initial ?? start };
    if ("wrong" in entry) return `${label}: ${entry.wrong}`;
    const { value } = entry;
    if (value === undefined) {
      if (field.required) return `${label} is needed.`;
      continue;
    }
    found[field.name] = value;
  }
  return found;
}

/** The fields of an object schema. */
export function fieldsOf(schema: Json): Field[] {
  const object = fields(schema);
  const required = Array.isArray(object.required) ? object.required : [];
  return Object.entries(fields(object.properties)).map(([name, of]) => {
    const own = fields(of);
    const field: Field = {
      name,
      label: text(own.title) || name,
      schema: own,
      required: required.includes(name),
    };
    if (own.default !== undefined) field.initial = own.default;
    if (text(own.description)) field.hint = text(own.description);
    return field;
  });
}

function Control({ field, onChange }: { field: Field; onChange: (entry: Entry) => void }) {
  const id = useId();
  const wrong = useSignal("");
  const say = (entry: Entry) => {
    wrong.value = "wrong" in entry ? entry.wrong : "";
    onChange(entry);
  };
  const { schema, initial } = field;
  const choices = Array.isArray(schema.enum) ? schema.enum : null;
  const type = text(schema.type);
  const common = {
    id,
    "aria-describedby": field.hint ? `${id}-hint` : undefined,
    "aria-invalid": wrong.value !== "",
  };
  let control;
  if (choices) {
    const at = choices.findIndex((one) => JSON.stringify(one) === JSON.stringify(initial));
    control = (
      <select
        {...common}
        onChange={(event) => {
          const chosen = event.currentTarget.value;
          say({ value: chosen === "" ? undefined : choices[Number(chosen)] });
        }}
      >
        {at < 0 && <option value="">Choose…</option>}
        {choices.map((one, index) => (
          <option key={index} value={index} selected={index === at}>
            {plain(typeof one === "string" ? one : JSON.stringify(one))}
          </option>
        ))}
      </select>
    );
  } else if (type === "boolean") {
    control = (
      <input
        {...common}
        type="checkbox"
        defaultChecked={initial === true}
        onChange={(event) => say({ value: event.currentTarget.checked })}
      />
    );
  } else if (type === "number" || type === "integer") {
    control = (
      <input
        {...common}
        type="text"
        inputMode="decimal"
        defaultValue={typeof initial === "number" ? String(initial) : ""}
        onInput={(event) => say(asNumber(event.currentTarget.value, schema))}
      />
    );
  } else if (type === "string") {
    const start = typeof initial === "string" ? initial : "";
    const onInput = (event: { currentTarget: { value: string } }) =>
      say({ value: event.currentTarget.value || (field.required ? undefined : "") });
    control =
      start.length > 60 || start.includes("\n") ? (
        <textarea {...common} rows={6} defaultValue={start} onInput={onInput} />
      ) : (
        <input {...common} type="text" defaultValue={start} onInput={onInput} />
      );
  } else {
    control = (
      <textarea
        {...common}
        rows={4}
        class="mono"
        spellcheck={false}
        placeholder="JSON"
        defaultValue={initial === undefined ? "" : JSON.stringify(initial, null, 2)}
        onInput={(event) => say(asJson(event.currentTarget.value))}
      />
    );
  }
  return (
    <div class={`control${type === "boolean" && !choices ? " flag" : ""}`}>
      <label for={id}>
        {plain(field.label)}
        {field.required && <span class="needed"> needed</span>}
      </label>
      {control}
      {wrong.value && (
        <p class="wrong" role="alert">
          {wrong.value}
        </p>
      )}
      {field.hint && (
        <p class="hint" id={`${id}-hint`}>
          {plain(field.hint)}
        </p>
      )}
    </div>
  );
}

function asNumber(typed: string, schema: Fields): Entry {
  if (typed.trim() === "") return { value: undefined };
  const value = Number(typed);
  if (!Number.isFinite(value)) return { wrong: "this is not a number" };
  if (schema.type === "integer" && !Number.isInteger(value)) {
    return { wrong: "this must be a whole number" };
  }
  const { minimum, maximum } = schema;
  if (typeof minimum === "number" && value < minimum) return { wrong: `at least ${minimum}` };
  if (typeof maximum === "number" && value > maximum) return { wrong: `at most ${maximum}` };
  return { value };
}

export function asJson(typed: string): Entry {
  if (typed.trim() === "") return { value: undefined };
  try {
    return { value: JSON.parse(typed) as Json };
  } catch (error) {
    return { wrong: error instanceof Error ? error.message : "this is not JSON" };
  }
}
