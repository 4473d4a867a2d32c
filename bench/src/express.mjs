// What the workbench bench compares with: an Express server that keeps parsed bodies in memory.
import express from "express";

const runs = new Map();
const app = express();
app.disable("x-powered-by");
app.use(express.json({ limit: "26mb" }));
app.get("/api/runs", (request, response) => {
  const rows = [...runs.values()].map(({ run }) => ({
    id: run.id,
    workflowId: run.workflowId,
    startedAt: run.startedAt,
    status: run.status,
    tags: run.tags,
  }));
  rows.sort((a, b) => (a.startedAt < b.startedAt ? 1 : -1));
  response.json(rows.slice(0, Number(request.query.limit ?? 100)));
});
app.get("/api/runs/:id", (request, response) => response.json(runs.get(request.params.id)));
app.put("/api/runs/:id", (request, response) => {
  runs.set(request.params.id, request.body);
  response.status(204).end();
});
const server = app.listen(0, "127.0.0.1", () => console.log(server.address().port));
process.stdin.resume().on("end", () => process.exit(0));
