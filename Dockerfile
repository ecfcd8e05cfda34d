# The service in a container. Build: docker build -t crashcart .   Run: docker compose up

FROM python:3.11-slim-bookworm AS build
WORKDIR /src
COPY requirements.lock requirements.runtime.lock ./
RUN python -m venv /build \
    && /build/bin/python -m pip install --no-cache-dir --require-hashes -r requirements.lock
RUN python -m venv /opt/crashcart \
    && /opt/crashcart/bin/python -m pip install --no-cache-dir --require-hashes -r requirements.runtime.lock
COPY pyproject.toml README.md LICENSE ./
COPY app app
COPY rules rules
COPY fixtures/practice fixtures/practice
RUN /build/bin/python -m pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /dist . \
    && /opt/crashcart/bin/python -m pip install --no-cache-dir --no-deps /dist/crashcart-*.whl

FROM python:3.11-slim-bookworm
COPY --from=build /opt/crashcart /opt/crashcart
COPY fixtures/practice /opt/practice
COPY deploy/crashcart.yaml /etc/crashcart/crashcart.yaml
RUN useradd --system --uid 8321 --create-home --home-dir /var/lib/crashcart crashcart \
    && install --directory --owner=crashcart --mode=0700 /var/lib/crashcart/state \
    && install --directory --owner=crashcart --mode=0755 /logs
ENV PATH=/opt/crashcart/bin:$PATH CRASHCART_STATE=/var/lib/crashcart/state
USER 8321
VOLUME ["/var/lib/crashcart/state"]
EXPOSE 8321
HEALTHCHECK --interval=15s --timeout=5s --start-period=20s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8321/readyz', timeout=3)"]
ENTRYPOINT ["crashcart"]
CMD ["serve", "--config", "/etc/crashcart/crashcart.yaml"]
