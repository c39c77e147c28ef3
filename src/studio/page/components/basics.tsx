// Components of all views. Buttons are plain <button>s with the classes of assets/components.css.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";
import { ownClass as ownOfExpert } from "../../../figures/scores.js";

/** Class that sets the accent: that of the base, of a merge, or of the expert at this position from 0. */
export const ownClass = (expert: number | "base" | "merge") =>
  typeof expert === "string" ? `own-${expert}` : ownOfExpert(expert);

interface FieldProps {
  readonly label: string;
  readonly hint?: string | undefined;
  readonly error?: string | undefined;
  /** Gets the attributes that connect the control with its texts. */
  readonly children: (attributes: {
    id: string;
    "aria-describedby": string | undefined;
    "aria-invalid": "true" | undefined;
  }) => ComponentChildren;
}

/** A labelled control with a hint or an error. */
export function Field({ label, hint, error, children }: FieldProps) {
  const id = useId();
  const below = error ?? hint;
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children({
        id,
        "aria-describedby": below ? `${id}-below` : undefined,
        "aria-invalid": error ? "true" : undefined,
      })}
      {below ? (
        <span id={`${id}-below`} class={error ? "error" : "hint"}>
          {below}
        </span>
      ) : null}
    </div>
  );
}

interface SegmentsProps<T extends string | number> {
  readonly label: string;
  readonly options: readonly (readonly [value: T, label: ComponentChildren])[];
  readonly value: T;
  readonly onChange: (value: T) => void;
}

/** A choice among a few, all visible. */
export function Segments<T extends string | number>({ label, options, value, onChange }: SegmentsProps<T>) {
  return (
    <fieldset class="segments" aria-label={label}>
      {options.map(([one, text]) => (
        <button type="button" key={one} aria-pressed={one === value} onClick={() => onChange(one)}>
          {text}
        </button>
      ))}
    </fieldset>
  );
}

interface EitherProps {
  readonly label: string;
  /** What false and true are called. */
  readonly texts: readonly [no: string, yes: string];
  readonly value: boolean;
  readonly onChange: (value: boolean) => void;
}

/** One of two. */
export const Either = ({ label, texts, value, onChange }: EitherProps) => (
  <Segments {...{ label, options: [...texts.entries()], value: Number(value) }} onChange={(at) => onChange(at === 1)} />
);

interface DialogProps {
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
  /** Buttons at the bottom. */
  readonly footer?: ComponentChildren;
}

/** A modal dialog, open for as long as it is rendered. Escape closes it; the focus returns to where it was. */
export function Dialog({ title, onClose, children, footer }: DialogProps) {
  const id = useId();
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement;
    dialog.current?.showModal();
    return () => {
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <dialog ref={dialog} aria-labelledby={id} onClose={onClose}>
      <header>
        <h2 id={id}>{title}</h2>
        <Button icon="close" class="quiet icon-only" aria-label="Close" onClick={onClose} />
      </header>
      <div class="content" tabIndex={0}>
        {children}
      </div>
      {footer ? <footer>{footer}</footer> : null}
    </dialog>
  );
}

/** A question mark that explains something. */
export function Tip({ label, children }: { label: string; children: ComponentChildren }) {
  const id = useId();
  const button = useRef<HTMLButtonElement>(null);
  const onToggle = ({ currentTarget }: { currentTarget: HTMLElement }) => {
    const at = button.current?.getBoundingClientRect();
    if (at && currentTarget.matches(":popover-open")) placeBeside(currentTarget, at);
  };
  return (
    <>
      <button {...{ type: "button", class: "tip", "aria-label": label, popovertarget: id, ref: button }} />
      <span {...{ id, popover: "auto", class: "bubble", onToggle }}>{children}</span>
    </>
  );
}

/** Puts a fixed element below or above a place, inside the window. */
export function placeBeside(element: HTMLElement, place: { left: number; top: number; bottom: number }): void {
  const { width, height } = element.getBoundingClientRect();
  const fits = place.bottom + 8 + height <= innerHeight;
  const left = Math.max(8, Math.min(place.left, document.documentElement.clientWidth - width - 8));
  element.style.left = `${left}px`;
  element.style.top = `${Math.max(8, fits ? place.bottom + 8 : place.top - height - 8)}px`;
}

interface PagerProps {
  readonly page: number;
  readonly pages: number;
  readonly onPage: (page: number) => void;
}

/** The way to other pages of items; nothing where there is one. */
export function Pager({ page, pages, onPage }: PagerProps) {
  if (pages < 2) return null;
  return (
    <div class="row pager">
      <Button text="Previous" disabled={page === 0} onClick={() => onPage(page - 1)} />
      <span class="small soft numeric">
        Page {page + 1} of {pages}
      </span>
      <Button text="Next" disabled={page + 1 >= pages} onClick={() => onPage(page + 1)} />
    </div>
  );
}

interface EmptyProps {
  /** Name of the view, where this is all of it. */
  readonly view: string;
  readonly title: string;
  readonly text: string;
  /** The view to go to first. */
  readonly link?: readonly [view: string, text: string];
  readonly children?: ComponentChildren;
}

/** An empty view: what to do, in a sentence. */
export const EmptyView = ({ view, ...empty }: EmptyProps) => (
  <section class="view">
    <h1 class="visually-hidden">{view}</h1>
    <Empty {...empty} />
  </section>
);

export function Empty({ title, text, link, children }: Omit<EmptyProps, "view">) {
  return (
    <div class="empty">
      <h2>{title}</h2>
      <p>{text}</p>
      {link ? (
        <a class="button primary" href={`#/${link[0]}`}>
          {link[1]}
        </a>
      ) : null}
      {children ? <div class="row">{children}</div> : null}
    </div>
  );
}

interface NoticeProps {
  readonly kind?: "caution" | "problem" | undefined;
  readonly text: ComponentChildren;
  /** Buttons. */
  readonly children?: ComponentChildren;
}

/** Something to know, or to do. */
export const Notice = ({ kind, text, children }: NoticeProps) => (
  <div class={`notice ${kind ?? ""}`} role={kind === "problem" ? "alert" : undefined}>
    <div class="lines">{text}</div>
    {children}
  </div>
);

export const Cautions = ({ texts }: { texts: readonly string[] }) => (
  <>
    {texts.map((text) => (
      <Notice key={text} kind="caution" text={text} />
    ))}
  </>
);

interface FormProps extends Omit<JSX.IntrinsicElements["form"], "onSubmit"> {
  readonly onSubmit: () => void;
}

/** A form whose work is done in the page. */
export const Form = ({ onSubmit, ...rest }: FormProps) => (
  <form
    {...rest}
    onSubmit={(event) => {
      event.preventDefault();
      onSubmit();
    }}
  />
);

interface ButtonProps extends Omit<JSX.IntrinsicElements["button"], "icon"> {
  /** What it says; nothing where its label does. */
  readonly text?: ComponentChildren;
  readonly icon?: keyof typeof ICONS;
}

/** A plain button; `class` is one of assets/components.css. */
export const Button = ({ text, icon, ...rest }: ButtonProps) => (
  <button type="button" {...rest}>
    {icon ? <Icon name={icon} /> : null}
    {text}
  </button>
);

const ICONS = {
  close: "M4 4l8 8M12 4l-8 8",
  folder: "M1.5 4.5v8h13v-7h-6.5l-1.5-2h-5z",
  model: "M2 3h12M2 6.3h12M2 9.6h12M2 13h12",
  plus: "M8 3v10M3 8h10",
  up: "M8 13V3M3.5 7.5 8 3l4.5 4.5",
  pen: "M3 13l.7-3L11 2.7l2.3 2.3L6 12.3z",
  check: "M3 8.5l3.2 3.2L13 4.8",
} as const;

/** A line drawing; the text beside it, or the label of its button, says what it means. */
export function Icon({ name }: { name: keyof typeof ICONS }) {
  return (
    <svg
      width="16"
      height="16"
      viewBox="0 0 16 16"
      aria-hidden="true"
      fill="none"
      stroke="currentColor"
      stroke-width="1.5"
    >
      <path d={ICONS[name]} stroke-linecap="round" stroke-linejoin="round" />
    </svg>
  );
}

export function Facts({ facts }: { facts: readonly (readonly [name: string, value: string])[] }) {
  return (
    <dl class="facts">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
