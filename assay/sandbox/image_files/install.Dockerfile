# One CLI at one version, in an image of its own that nothing runs in: what the install lines left under $OUT.
ARG TOOLS
FROM ${TOOLS} AS install
LABEL assay.stage=@DIGEST@
ARG VERSION
ARG ARCH
ARG NODE
ENV OUT=/opt/assay/agent
COPY install.sh finish.sh /opt/assay/build/
WORKDIR /opt/assay/work
RUN sh -eux /opt/assay/build/install.sh 2>&1 \
 && cd / && rm -rf /opt/assay/work /root/.npm \
 && sh -eu /opt/assay/build/finish.sh
FROM scratch
COPY --from=install /opt/assay/agent /opt/assay/agent
