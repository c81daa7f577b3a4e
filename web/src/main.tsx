import "./style/base.css";
import "./style/frame.css";
import "./style/parts.css";
import "./style/pages.css";
import "./style/views.css";
import "./style/canvas.css";
import { Route, Router } from "@solidjs/router";
import { lazy } from "solid-js";
import { render } from "solid-js/web";
import { begin } from "./app/console";
import { applyTheme } from "./app/settings";
import { Shell } from "./app/shell";
import { Overview } from "./pages/overview";

// A chunk that is gone belongs to an earlier version of the console: the page loads itself anew, once.
addEventListener("vite:preloadError", (e) => {
  if (sessionStorage.getItem("reloaded") === location.href) return;
  sessionStorage.setItem("reloaded", location.href);
  e.preventDefault();
  location.reload();
});

applyTheme();
const app = document.getElementById("app")!;
const started = begin();

const page = <K extends string>(load: () => Promise<Record<K, () => import("solid-js").JSX.Element>>, name: K) =>
  lazy(async () => ({ default: (await load())[name] }));

app.textContent = "";
render(
  () => (
    <Router base="/console" root={(props) => <Shell started={started}>{props.children}</Shell>}>
      <Route path="/" component={Overview} />
      <Route path="/jobs" component={page(() => import("./pages/jobs"), "Jobs")} />
      <Route path="/submit" component={page(() => import("./pages/submit"), "Submit")} />
      <Route path="/sessions" component={page(() => import("./pages/sessions"), "Sessions")} />
      <Route path="/queue" component={page(() => import("./pages/queue"), "QueuePage")} />
      <Route path="/nodes" component={page(() => import("./pages/nodes"), "Nodes")} />
      <Route path="/nodes/:id" component={page(() => import("./pages/node"), "NodePage")} />
      <Route path="/cluster" component={page(() => import("./pages/cluster"), "ClusterPage")} />
      <Route path="/flows" component={page(() => import("./pages/flows"), "Flows")} />
      <Route path="/flows/:id" component={page(() => import("./pages/flow"), "FlowPage")} />
      <Route path="/flows/:id/runs/:execution" component={page(() => import("./pages/run"), "RunPage")} />
      <Route path="/jobs/:id/:tab?" component={page(() => import("./pages/job"), "JobPage")} />
      <Route path="*" component={page(() => import("./pages/missing"), "Missing")} />
    </Router>
  ),
  app,
);
