# Two images. `merge` merges and analyses; `full` also runs, trains and exports models, and executes answers that are programs.
#   docker build --target merge --tag layergraft:merge .
#   docker run --rm --volume "$PWD:/models" --user "$(id -u):$(id -g)" layergraft:merge inspect math-expert

FROM node:24-bookworm-slim AS package
WORKDIR /source
COPY . .
RUN npm ci \
  && npm run build \
  && npm pack --pack-destination /

# In a folder, as npm ignores --omit=optional where it installs a tarball globally (npm/cli issue 8284).
FROM node:24-bookworm-slim AS merge-packages
WORKDIR /opt/layergraft
COPY --from=package /layergraft-*.tgz /layergraft.tgz
RUN npm install --ignore-scripts --omit=optional --omit=peer /layergraft.tgz

FROM node:24-bookworm-slim AS full-packages
WORKDIR /opt/layergraft
COPY --from=package /layergraft-*.tgz /layergraft.tgz
RUN npm install --ignore-scripts /layergraft.tgz node-llama-cpp@3.22.1

# Any user may write to the cache of hub models and files for llama.cpp: mount a volume to keep it.
FROM node:24-bookworm-slim AS merge
RUN install --directory --mode=1777 /cache /models \
  && ln -s /opt/layergraft/node_modules/.bin/layergraft /usr/local/bin/layergraft
COPY --from=merge-packages /opt/layergraft /opt/layergraft
ENV HF_HOME=/cache/huggingface LAYERGRAFT_CACHE=/cache/layergraft
WORKDIR /models
USER node
ENTRYPOINT ["layergraft"]
CMD ["--help"]

FROM node:24-bookworm-slim AS full
RUN apt-get update \
  && apt-get install --yes --no-install-recommends python3=3.11.* \
  && rm -rf /var/lib/apt/lists/* \
  && install --directory --mode=1777 /cache /models \
  && ln -s /opt/layergraft/node_modules/.bin/layergraft /usr/local/bin/layergraft
COPY --from=full-packages /opt/layergraft /opt/layergraft
ENV HF_HOME=/cache/huggingface LAYERGRAFT_CACHE=/cache/layergraft
WORKDIR /models
USER node
ENTRYPOINT ["layergraft"]
CMD ["--help"]
