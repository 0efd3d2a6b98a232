# syntax=docker/dockerfile:1
# The program and what it needs to encrypt, nothing else. It has no default command: listening where other machines
# can reach it takes accounts, which no image can bring along.

FROM rust:1.95.0-bookworm AS build
# The compiler of the image as it is; rust-toolchain.toml would have it fetch tools that a build does not need.
ENV RUSTUP_TOOLCHAIN=1.95.0
WORKDIR /src
COPY . .
# The caches keep a rebuild short; the program is copied out of them, since they are no part of the image.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --release --locked && cp target/release/posthaste /usr/local/bin/

FROM debian:bookworm-slim
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --home-dir /var/lib/posthaste --create-home posthaste
COPY --from=build /usr/local/bin/posthaste /usr/local/bin/
USER 10001
# The default store, ./posthaste-data, is in here.
WORKDIR /var/lib/posthaste
VOLUME /var/lib/posthaste
EXPOSE 7411 7412 7480 7481
ENTRYPOINT ["posthaste"]
CMD ["--help"]
