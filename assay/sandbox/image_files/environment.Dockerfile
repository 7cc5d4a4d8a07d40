# What a task without an environment of its own runs in; checkers too.
ARG BASE
FROM ${BASE}
ENV LANG=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
      ca-certificates curl git procps python3 python3-pytest \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/log/apt /var/log/dpkg.log \
 && pytest --version \
 # Behind a fence everything is refused at once; three tries of each list would still take seven seconds.
 && echo 'Acquire::Retries "0";' > /etc/apt/apt.conf.d/90-refused-at-once
COPY user.sh /opt/assay/build/
RUN sh /opt/assay/build/user.sh
