// The console: signs in, and shows the page that the address names.
import { signal } from "@preact/signals";
import { render } from "preact";
import { useEffect } from "preact/hooks";
import { may, readSession, session, signOut } from "./api";
import { plain } from "./format";
import { CostsPage } from "./pages/costs";
import { QueuesPage, WebhooksPage } from "./pages/house";
import { ServerPage } from "./pages/server";
import { InboxPage } from "./pages/inbox";
import { RunPage } from "./pages/run";
import { RunsPage } from "./pages/runs";
import { SignIn } from "./pages/signin";
import { WorkflowPage, WorkflowsPage } from "./pages/workflows";
import { Palette, listen, palette } from "./palette";
import { href, route } from "./route";
import type { Bundle } from "./run";
import { Boundary, Button, Empty, Notes, clearNotes, words } from "./ui";
import "./style.css";

const trouble = signal("");

async function begin(): Promise<void> {
  try {
    await readSession();
    trouble.value = "";
  } catch (error) {
    trouble.value = words(error);
    setTimeout(() => void begin(), 1500);
  }
}

function Page() {
  const { parts } = route.value;
  const [section = "runs", id] = parts;
  switch (section) {
    case "runs":
      return id ? <RunPage key={id} id={id} /> : <RunsPage />;
    case "inbox":
      return <InboxPage />;
    case "workflows":
      return id ? <WorkflowPage key={id} id={id} /> : <WorkflowsPage />;
    case "queues":
      return <QueuesPage name={id} />;
    case "webhooks":
      return <WebhooksPage id={id} />;
    case "spending":
      return <CostsPage />;
    case "server":
      return <ServerPage part={id ?? ""} />;
    default:
      return (
        <main class="page" id="main">
          <Empty title="There is no such page">
            <p>
              <a href={href(["runs"])}>All runs</a>
            </p>
          </Empty>
        </main>
      );
  }
}

const SECTIONS = [
  { id: "runs", name: "Runs", scope: "runs:read" },
  { id: "inbox", name: "Inbox", scope: "runs:read" },
  { id: "workflows", name: "Workflows", scope: "manifest:read" },
  { id: "queues", name: "Queues", scope: "coordinator:read" },
  { id: "webhooks", name: "Webhooks", scope: "webhooks:manage" },
  { id: "spending", name: "Spending", scope: "runs:read" },
  { id: "server", name: "Server", scope: "" },
];

function Navigation() {
  const current = route.value.parts[0] ?? "runs";
  const who = session.value;
  return (
    <nav class="nav" aria-label="Sections">
      <a class="brand" href={href(["runs"])}>
        <img src="console/icon.svg" alt="" width={20} height={20} />
        Runwright
      </a>
      <div class="nav-links">
        {SECTIONS.filter((one) => one.scope === "" || may(one.scope)).map((one) => (
          <a
            key={one.id}
            href={href([one.id])}
            aria-current={one.id === current ? "page" : undefined}
          >
            {one.name}
          </a>
        ))}
      </div>
      <span class="spacer" />
      <button type="button" class="button plain search" onClick={() => (palette.value = true)}>
        Go to… <kbd>/</kbd>
      </button>
      <span class="faint who">
        {plain(who?.tenant ?? "")}
        {who?.workspace && ` / ${plain(who.workspace)}`}
      </span>
      {!who?.open && (
        <Button
          onClick={async () => {
            await signOut();
            clearNotes();
          }}
        >
          Sign out
        </Button>
      )}
    </nav>
  );
}

function App() {
  useEffect(listen, []);
  const who = session.value;
  const { parts } = route.value;
  useEffect(() => {
    const section = SECTIONS.find((one) => one.id === (parts[0] ?? "runs"));
    const names = [parts[1] && plain(parts[1]), section?.name, "Runwright"];
    document.title = names.filter(Boolean).join(" · ");
  }, [parts.join("/")]);
  if (!who) {
    return (
      <main class="page" id="main">
        <p class="pad">{trouble.value || "Connecting to the server…"}</p>
      </main>
    );
  }
  if (!who.signedIn) return <SignIn />;
  return (
    <div class="app">
      <a class="skip" href="#main" onClick={skip}>
        Skip to the content
      </a>
      <Navigation />
      <Boundary key={route.value.parts.join("/")}>
        <Page />
      </Boundary>
      <Notes />
      {palette.value && <Palette />}
    </div>
  );
}

/** The hash is the address of the page, so the link moves the focus by itself. */
function skip(event: Event): void {
  event.preventDefault();
  const main = document.getElementById("main");
  main?.setAttribute("tabindex", "-1");
  main?.focus();
}

/** The page of a file: one run, read only. */
function Offline({ bundle }: { bundle: Bundle }) {
  return (
    <div class="app offline">
      <RunPage id={bundle.run.runId} bundle={bundle} />
      <Notes />
    </div>
  );
}

const root = document.getElementById("app");
const embedded = document.getElementById("bundle")?.textContent;
if (root && embedded) {
  render(<Offline bundle={JSON.parse(embedded) as Bundle} />, root);
} else if (root) {
  render(<App />, root);
  void begin();
}
