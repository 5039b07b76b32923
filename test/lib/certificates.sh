#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Makes authorities, certificates and keys for tests of TLS in a folder, by the openssl command.
# Usage: certificates.sh FOLDER
#
#     ca.pem, other_ca.pem         two authorities that do not certify each other
#     server.pem, server.key       for localhost, 127.0.0.1 and ::1, signed by ca.pem
#     renewed.pem                  the same, signed by other_ca.pem
#     name.pem                     for redis.example only
#     localhost.pem                for 127.0.0.1 only, but with the subject localhost
#     wild.pem                     for *.lock.example and re*.part.example
#     purpose.pem                  like server.pem, for use by clients only
#     expired.pem, early.pem       like server.pem, expired and not valid yet
#     client.pem, client.key       a client's certificate and key
#     renewed_client.pem, .key     the same, signed by other_ca.pem, with a key of its own
#     secret.key                   client.key, protected by a passphrase
#     foreign.key                  a key that belongs to no certificate here
#     folder/                      ca.pem under OpenSSL's hash
#
# Every server certificate has server.key.
set -eu
rm -rf "$1"
mkdir "$1"
cd "$1"
exec 2>log

key() { # FILE
    openssl ecparam -name prime256v1 -genkey -noout -out "$1"
}

authority() { # NAME
    key "$1.key"
    openssl req -x509 -new -key "$1.key" -out "$1.pem" -days 9000 -subj "/CN=$1 of the tests" \
        -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign
}

# Only `openssl ca` accepts a first and a last date.
sign() { # AUTHORITY KEY NAME SUBJECT-ALTERNATIVE-NAMES [BEGIN END]
    mkdir -p "db_$3"
    : >"db_$3/index"
    cat >"db_$3/config" <<EOF
[ca]
default_ca = tests
[tests]
new_certs_dir = db_$3
database = db_$3/index
rand_serial = yes
default_md = sha256
policy = any
x509_extensions = extensions
unique_subject = no
[any]
commonName = supplied
[extensions]
basicConstraints = critical,CA:FALSE
subjectAltName = $4
EOF
    openssl req -new -key "$2" -out "db_$3/request" -subj "/CN=$3"
    openssl ca -batch -notext -config "db_$3/config" -cert "$1.pem" -keyfile "$1.key" \
        -in "db_$3/request" -out "$3.pem" -startdate "${5-20200101000000Z}" \
        -enddate "${6-20490101000000Z}"
}

authority ca
authority other_ca
key server.key
key client.key
key renewed_client.key
key foreign.key
here=DNS:localhost,IP:127.0.0.1,IP:::1
sign ca server.key server "$here"
sign other_ca server.key renewed "$here"
sign ca server.key name DNS:redis.example
sign ca server.key localhost IP:127.0.0.1
sign ca server.key wild 'DNS:*.lock.example,DNS:re*.part.example'
sign ca server.key purpose "$here
extendedKeyUsage = clientAuth"
sign ca server.key expired "$here" 20200101000000Z 20200201000000Z
sign ca server.key early "$here" 20480101000000Z 20490101000000Z
sign ca client.key client DNS:client.example
sign other_ca renewed_client.key renewed_client DNS:client.example
openssl ec -in client.key -aes256 -passout pass:secret -out secret.key
mkdir folder
cp ca.pem "folder/$(openssl x509 -in ca.pem -noout -hash).0"
