// Layers whose states mix positions: texts one after the other in a row, as training packs them, do not reach one another.
import { describe, expect, it } from "vitest";
import { allGoldens, distance, type Golden, specOf } from "../../test/support/golden-decoders.js";
import { buildDecoder } from "./model/decoder-graph.js";
import { FEEDS } from "./model/feeds.js";
import { openModelSource } from "./model-source.js";
import { feedsOf, integers, RopeTables } from "./rope-tables.js";
import { lowerGraph } from "./runtime/lower.js";
import { openSession } from "./runtime/session.js";
import { bindWeights } from "./weights.js";

const LOGITS = 1e-4;

const recurrent = allGoldens().filter(({ folder }: Golden) => specOf(folder).recurrence !== null);

describe.each(recurrent)("$name", ({ folder, rows, logits }: Golden) => {
  it("has the logits of transformers where texts are packed into one row", async () => {
    const source = await openModelSource(folder);
    const decoder = buildDecoder(specOf(folder));
    const { weights } = await bindWeights(decoder, source, {});
    const session = await openSession(lowerGraph({ logits: decoder.logits }, { weights }), { threads: 1 });
    const packed = [...rows, ...rows.map((row) => row.slice(0, 2)), ...rows];
    const count = packed.flat().length;
    const feeds = {
      ...feedsOf(packed, new RopeTables(decoder.spec.ropes)),
      [FEEDS.rows]: integers([count], [...Array(count).keys()]),
    };
    const found = await session.run(feeds, ["logits"]);
    await session.close();
    const wanted = [...logits, ...logits.map((list) => list.slice(0, 2)), ...logits].flat(2);
    expect(distance(found.logits?.data as Float32Array, wanted)).toBeLessThan(LOGITS);
  });
});
