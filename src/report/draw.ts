// Renders Vega-Lite specifications to SVG, and SVG to PNG, without a browser.
import { createRequire } from "node:module";
import type { TopLevelSpec } from "vega-lite";

let last: Promise<unknown> = Promise.resolve();

/** A specification as SVG. The same one gives the same bytes. */
export function drawSpec(specification: TopLevelSpec): Promise<string> {
  // One after the other: Vega numbers the ids of gradients and clips by process, from the last reset on.
  const drawn = last.then(() => draw(specification));
  last = drawn.catch(() => undefined);
  return drawn;
}

async function draw(specification: TopLevelSpec): Promise<string> {
  // Loaded on demand: drawing is rare, and these libraries are large.
  const [vega, { compile }] = await Promise.all([import("vega"), import("vega-lite")]);
  const { spec } = compile(specification);
  const view = new vega.View(vega.parse(spec), { renderer: "none", logLevel: vega.Error });
  try {
    vega.resetSVGDefIds();
    return await view.toSVG();
  } finally {
    view.finalize();
  }
}

/** An SVG as PNG, drawn with the font that comes with the package. @param scale pixels per SVG unit; default 2 */
export async function svgToPng(svg: string, scale = 2): Promise<Uint8Array> {
  const { Resvg } = await import("@resvg/resvg-js");
  const locate = createRequire(import.meta.url).resolve;
  const font = (weight: string) => locate(`@expo-google-fonts/inter/${weight}.ttf`);
  const image = new Resvg(svg, {
    fitTo: { mode: "zoom", value: scale },
    font: {
      loadSystemFonts: false,
      defaultFontFamily: "Inter",
      fontFiles: [
        font("400Regular/Inter_400Regular"),
        font("500Medium/Inter_500Medium"),
        font("600SemiBold/Inter_600SemiBold"),
      ],
    },
  });
  return image.render().asPng();
}
