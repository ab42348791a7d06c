#!/bin/sh
# Makes once what docker-compose.yml needs: passwords in .env, an authority and the three brokers' certificates in
# deploy/compose/secrets. It keeps what is already there, but for certificates that end within a month, which it makes anew:
# restart the containers then. Needs openssl. DAYS is how long the certificates are valid.
set -eu
cd "$(dirname "$0")"
umask 077
secret() { openssl rand -hex 16; }

# Nothing is begun without it, nor is anything there before it is whole: what is there is kept.
openssl version > /dev/null
if [ ! -e ../../.env ]; then
  cat > ../../.env.new <<END
POSTGRES_PASSWORD=$(secret)
POSTGRES_SERVICE_PASSWORD=$(secret)
POSTGRES_READER_PASSWORD=$(secret)
COMMITLOG_UI_TOKEN=$(secret)
KAFKA_CLUSTER_ID=$(openssl rand -base64 16 | tr '+/' 'ab' | tr -d '=')
KAFKA_ADMIN_PASSWORD=$(secret)
KAFKA_SERVICE_PASSWORD=$(secret)
KAFKA_WRITER_PASSWORD=$(secret)
END
  mv ../../.env.new ../../.env
fi

mkdir -p secrets
cd secrets
curve="-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
lasts() { [ -e "$1" ] && openssl x509 -checkend 2592000 -noout -in "$1" > /dev/null; }
if ! lasts authority.pem; then
  rm -f kafka-?.pem
  openssl req -x509 $curve -keyout authority.key -out authority.pem -days "${DAYS:-825}" -subj "/CN=commitlog authority" 2>/dev/null
fi
for broker in kafka-1 kafka-2 kafka-3; do
  lasts "$broker.pem" && continue
  openssl req -new $curve -keyout "$broker.key" -out "$broker.csr" -subj "/CN=kafka" 2>/dev/null
  printf 'subjectAltName=DNS:%s,DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n' "$broker" > "$broker.ext"
  openssl x509 -req -in "$broker.csr" -CA authority.pem -CAkey authority.key -CAcreateserial -days "${DAYS:-825}" \
    -extfile "$broker.ext" -out "$broker.crt" 2>/dev/null
  cat "$broker.crt" >> "$broker.key"
  rm "$broker.csr" "$broker.ext" "$broker.crt"
  mv "$broker.key" "$broker.pem"
done
# The users inside the containers read them; on this machine nobody else can enter the folder.
chmod 644 authority.pem kafka-?.pem
