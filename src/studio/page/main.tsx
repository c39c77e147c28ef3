import { render } from "preact";
import { App } from "./app.tsx";
import { start } from "./store.ts";
import "../../../assets/tokens.css";
import "./studio.css";

const root = document.getElementById("app");
if (root) render(<App />, root);
void start();
