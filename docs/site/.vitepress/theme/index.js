// The default theme of VitePress in the colours and type of layergraft's pages.
import "../../../../assets/tokens.css";
import DefaultTheme from "vitepress/theme-without-fonts";
import "./theme.css";

export default DefaultTheme;
