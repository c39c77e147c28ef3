// Names and texts of people may be written from right to left. Beside them, numbers and signs stay where they are: every element of
// the page isolates such parts of its text, and an input takes the direction of what is in it.
import { type ComponentChildren, createElement, options, type VNode } from "preact";
import { directionsOf, isolated } from "../../kit/printing/format.js";

/** Text without elements inside it, which has isolates instead. */
const PLAIN = new Set(["option", "text", "tspan"]);
/** Text that is copied as it is, or has a direction already. */
const AS_IT_IS = new Set(["bdi", "code", "mark", "pre", "script", "style", "title"]);
const INPUTS = new Set(["input", "select", "textarea"]);

const before = options.vnode;
options.vnode = (vnode) => {
  if (typeof vnode.type === "string") isolate(vnode as VNode<Props>);
  before?.(vnode);
};

interface Props {
  children?: ComponentChildren;
  dir?: string;
}

function isolate({ type, props }: VNode<Props>): void {
  const tag = type as string;
  if (AS_IT_IS.has(tag) || props.dir !== undefined) return;
  if (INPUTS.has(tag)) props.dir = "auto";
  const { children } = props;
  if (children !== undefined) props.children = partsOf(children, tag);
}

function partsOf(child: ComponentChildren, tag: string): ComponentChildren {
  if (Array.isArray(child)) return child.map((one) => partsOf(one, tag));
  if (typeof child !== "string") return child;
  if (PLAIN.has(tag)) return isolated(child);
  const parts = directionsOf(child);
  return parts.length === 1 ? child : parts.map((part, i) => (i % 2 === 0 ? part : createElement("bdi", null, part)));
}
