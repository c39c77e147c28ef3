// The default theme of VitePress in the colours and type of layergraft's pages, with a board to play with on the first page.
import "../../../../assets/tokens.css";
import DefaultTheme from "vitepress/theme-without-fonts";
import { h, onMounted, ref } from "vue";
import "./theme.css";

/** Drawn once it is in a browser, in a shadow root: its styles are the studio's, and leave the site's alone. */
const Living = {
  setup() {
    /** @type {import("vue").Ref<HTMLElement | undefined>} */
    const host = ref();
    onMounted(async () => {
      const { show } = await import("./living.js");
      if (host.value) show(host.value);
    });
    return () => h("div", { class: "living-host", ref: host });
  },
};

export default {
  extends: DefaultTheme,
  Layout: () => h(DefaultTheme.Layout, null, { "home-hero-image": () => h(Living) }),
};
