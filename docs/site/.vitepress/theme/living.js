// The board of the first page, with the recorded scores.
import tokens from "../../../../assets/tokens.css?inline";
import { mount } from "../../../../src/studio/page/living/living.tsx";
import components from "../../../../src/studio/page/styles/components.css?inline";
import living from "../../../../src/studio/page/styles/living.css?inline";
import recipe from "../../../../src/studio/page/styles/recipe.css?inline";
import recorded from "../../swaps.json";

/** @param {HTMLElement} host */
export function show(host) {
  const root = host.attachShadow({ mode: "open" });
  const style = document.createElement("style");
  style.textContent = [tokens, components, recipe, living].join("\n");
  const element = document.createElement("div");
  root.append(style, element);
  mount(element, recorded);
}
