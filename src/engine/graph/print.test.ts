// A graph as a person reads it.
import { expect, it } from "vitest";
import { Graph, printGraph } from "./index.js";

it("is one node a line, in the order of computation, and nothing that no output needs", () => {
  const graph = new Graph();
  const x = graph.input("x", "f32", ["batch", "time", 4]);
  const weight = graph.input("q_proj.weight", "f32", [2, 4]);
  graph.exp(x);
  const flat = graph.flatten(x);
  const y = graph.matmul(flat, weight, { transB: true, alpha: 0.5 });
  const scaled = graph.mul(graph.gelu(y, "tanh"), 2);
  const ids = graph.input("ids", "i64", ["batch*time"]);
  const table = graph.constant([1, 2, 3, 4], [2, 2]);
  const out = graph.add(scaled, graph.gather(table, ids));
  const tail = graph.slice(graph.pad(out, 0, "time", "time+batch*time"), 0, 0, "batch*time");
  const total = graph.sum(graph.rmsNorm(out, graph.input("norm", "f32", [2]), 1e-5), [0], true);
  expect(printGraph({ total, same: x, tail: graph.where(graph.cast(tail, "bool"), tail, -0.5) })).toBe(
    [
      "x : f32[batch, time, 4]",
      "q_proj.weight : f32[2, 4]",
      "%3 = reshape(x) : f32[batch*time, 4]",
      "%4 = matmul(%3, q_proj.weight) transB=true alpha=0.5 : f32[batch*time, 2]",
      "%5 = gelu(%4) approximate=tanh : f32[batch*time, 2]",
      "%7 = mul(%5, 2) : f32[batch*time, 2]",
      "ids : i64[batch*time]",
      "%9 = constant() : f32[2, 2]",
      "%10 = gather(%9, ids) : f32[batch*time, 2]",
      "%11 = add(%7, %10) : f32[batch*time, 2]",
      "%12 = pad(%11) axis=0 range=[time,batch*time+time] : f32[batch*time+time, 2]",
      "%13 = slice(%12) axis=0 range=[0,batch*time] : f32[batch*time, 2]",
      "norm : f32[2]",
      "%15 = rmsNorm(%11, norm) epsilon=0.00001 : f32[batch*time, 2]",
      "%16 = sum(%15) axes=[0] keep=true : f32[1, 2]",
      "%17 = cast(%13) : bool[batch*time, 2]",
      "%19 = where(%17, %13, -0.5) : f32[batch*time, 2]",
      "total <- %16",
      "same <- x",
      "tail <- %19",
    ].join("\n"),
  );
});
