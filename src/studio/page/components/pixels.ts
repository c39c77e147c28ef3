// A picture as pixels: a browser draws text, which the server cannot.

export const addressOf = (svg: string) => `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;

/** @returns PNG as base64, of the size that the picture says */
export async function pixelsOf(svg: string): Promise<string> {
  const image = new Image();
  image.src = addressOf(svg);
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [image.width, image.height];
  canvas.getContext("2d")?.drawImage(image, 0, 0);
  return canvas.toDataURL("image/png").replace(/^[^,]*,/, "");
}
