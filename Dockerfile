# Both programs in one image: `wakepoint` works against a cluster, and `wakepoint dev` starts `wakepoint-engine`
# beside itself. They are two Go modules, so the engine, which is slow to compile and seldom changes, has a stage and
# a cache layer of its own.

ARG GO_IMAGE=golang:1.26.8-bookworm
ARG BASE_IMAGE=debian:12.12-slim

FROM ${GO_IMAGE} AS engine
WORKDIR /src/engine
COPY engine/go.mod engine/go.sum ./
RUN go mod download
COPY engine/ ./
ARG VERSION=dev
# Without C: the engine's SQLite is written in Go.
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X github.com/wakepoint/wakepoint/engine.Version=${VERSION}" -o /out/wakepoint-engine ./cmd/wakepoint-engine

FROM ${GO_IMAGE} AS wakepoint
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . ./
ARG VERSION=dev
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X github.com/wakepoint/wakepoint/starter/cli.version=${VERSION}" -o /out/wakepoint ./cmd/wakepoint

# Not distroless: tools of the executor `exec` are programs, and programs need a system around them.
FROM ${BASE_IMAGE}
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates tzdata \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --user-group --no-create-home --home-dir /var/lib/wakepoint --shell /usr/sbin/nologin wakepoint \
    && install -d -o wakepoint -g wakepoint -m 0750 /var/lib/wakepoint
COPY --from=engine /out/wakepoint-engine /usr/local/bin/
COPY --from=wakepoint /out/wakepoint /usr/local/bin/
COPY LICENSE /usr/share/doc/wakepoint/LICENSE
# By number, so that a cluster that forbids root can see that it is not root.
USER 10001:10001
WORKDIR /var/lib/wakepoint
VOLUME /var/lib/wakepoint
# The process is the worker, so a worker that died needs no check; this one notices a worker that cannot reach its cluster,
# or whose namespace or search attributes are not set up.
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s --retries=3 CMD ["/usr/local/bin/wakepoint", "task", "list", "--limit", "1"]
# Start it with an init process (`docker run --init`, `init: true`): process 1 has to collect what tools leave behind.
ENTRYPOINT ["/usr/local/bin/wakepoint"]
CMD ["worker"]
