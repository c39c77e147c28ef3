// Text from elsewhere on a terminal: it must not move the cursor, hide text or retitle the window.

/** After an escape character: the styles that layergraft itself prints, as picocolors writes them. */
const STYLE = /\[(?:[0-4]|2[1-4]|3\d|9[0-7])m/y;

/** Text with control and text-direction characters as symbols; line breaks, tabs and layergraft's own styles stay. */
export function visible(text: string): string {
  return text.replace(/\r\n|(?![\n\t])[\p{Cc}\u202a-\u202e\u2066-\u2069]/gu, (char, at: number) => {
    STYLE.lastIndex = at + 1;
    if (char === "\r\n" || (char === "\u001b" && STYLE.test(text))) return char;
    const code = char.charCodeAt(0);
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    return code === 0x7f ? "\u2421" : `\\u${code.toString(16).padStart(4, "0")}`;
  });
}
