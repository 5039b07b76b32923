# SPDX-License-Identifier: MIT
"""Mutations of TLS. The list is empty where hiredis has no TLS; .ci/run runs these with
another hiredis."""
import subprocess

TLS_MEMORY_MUTATIONS = [
    ('tls: the server is blamed for lack of memory',
     ('src/redis/tls.c', 'cause == LW__TLS_NO_MEMORY || tls->lacks_memory ||',
      'cause == LW__TLS_NO_MEMORY ||')),
]
TLS_CLIENTS_MUTATIONS = [
    ('tls: a link that cannot be connected leaves its TLS behind',
     ('src/redis/link.c', '    lw__tls_free(link->tls);\n    forget_channels(link);',
      '    forget_channels(link);')),
]
TLS_OPENING_MUTATIONS = [
    ('tls: a file is blamed for lack of memory',
     ('src/redis/tls_files.c', '== LW__TLS_NO_MEMORY) {\n        return lw__tls_no',
      '== 1) {\n        return lw__tls_no')),
    ('tls: a connection without memory for its state is used',
     ('src/redis/tls.c', 'tls->ssl == NULL || !expect_name(', '!expect_name(')),
    ('tls: authorities that were read without memory are blamed on the server',
     ('src/redis/tls.c', '            tls->lacks_memory = lw__tls_cause() == LW__TLS_NO_MEMORY;',
      '            (void)lw__tls_cause();')),
]
TLS_REFUSED_MUTATIONS = [
    ('a_common_name', ("tls: a certificate's common name counts",
     ('src/redis/tls.c', 'X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS |\n'
      '                               X509_CHECK_FLAG_NEVER_CHECK_SUBJECT',
      'X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS'))),
    ('authorities_are_read_anew*', ('tls: the authorities are read once',
     ('src/redis/tls_files.c', 'if (trust == NULL || !is_same(&trust->seen.file, &seen->file) ||\n'
      '        !is_same(&trust->seen.folder, &seen->folder)) {',
      'if (trust == NULL || (false && is_same(&trust->seen.file, &seen->file))) {'))),
]
TLS_TIME_MUTATIONS = [
    ('tls: a certificate that is not valid yet is refused for good',
     ('src/redis/tls.c', 'tls->rejected = verified != X509_V_ERR_CERT_NOT_YET_VALID;',
      'tls->rejected = true;')),
]
TLS_SECRETS_MUTATIONS = [
    ("tls: the C library reads the key's file with a buffer of its own",
     ('src/redis/tls_files.c', 'setvbuf(stream, text, _IOFBF, sizeof(text)) == 0', 'true')),
]
TLS_SECURED_MUTATIONS = [
    ('records_that_come_together_are*', ('tls: each record is answered by a write of its own',
     ('src/redis/link_tls.c', 'while (more && lw__tls_heard(link->tls) == received) {',
      'while (false && lw__tls_heard(link->tls) == received) {'))),
    ('records_that_come_together', ('tls: what OpenSSL has read ahead waits for the socket',
     ('src/redis/link_tls.c', 'while (more && lw__tls_heard(link->tls) == received) {\n'
      '        more = read_record(link, context);\n    }\n    if (more) {',
      'if (more && received == 0) {'))),
]

FOUND = subprocess.run(['pkg-config', '--atleast-version=1.1', 'hiredis_ssl'], check=False)
TLS = FOUND.returncode == 0
MUTATIONS = [
    (TLS_MEMORY_MUTATIONS, 'memory_tls_handshake_one', ()),
    (TLS_CLIENTS_MUTATIONS, 'memory_tls_clients_one', ()),
    (TLS_OPENING_MUTATIONS, 'memory_tls_opening_one', ()),
    *(([mutation], 'tls_refused', (test,)) for test, mutation in TLS_REFUSED_MUTATIONS),
    (TLS_TIME_MUTATIONS, 'tls_refused', ('not_yet_valid',)),
    (TLS_SECRETS_MUTATIONS, 'tls_secrets', ('nothing_of_the_keys*',)),
    *(([mutation], 'tls_secured', (test,)) for test, mutation in TLS_SECURED_MUTATIONS),
] if TLS else []
