// How the tests run. Unit tests stand beside the code; tests of the public surface stand in test/.
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["src/**/*.test.ts", "test/**/*.test.ts"],
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // Two cores are enough for the suite; a third worker computes while others wait for disks, kills and servers.
    maxWorkers: 3,
    // What is built is run as it is, as by those who install it.
    server: { deps: { external: [/\/dist\//] } },
  },
});
