# SPDX-License-Identifier: MIT
"""Mutations of descriptions of holds: notes, and what is shown of a detached lock."""

SHOWN = 'test/integration/inspect/inspect_described'
SCRIPT = 'test/integration/scripts/scripts_describe'

MUTATIONS = [
    ([('a detached lock does not show its client',
       ('src/hold', '.about = lw__description_about(claim, about) ? about : NULL,',
        '.about = lw__description_about(claim, about) ? NULL : NULL,'))],
     SHOWN, ('a_detached*',)),
    ([('a release leaves the description behind',
       ('src/hold', '.described = claim->extras->description != NULL,', '.described = false,'))],
     SHOWN, ('a_note_is*',)),
    ([('a break leaves the description behind',
       ('scripts/lua/mutex_release.lua', 'if held and KEYS[4] then', 'if false then'))],
     SHOWN, ('a_detached*',)),
    ([('a description is not renewed with the lease',
       ('src/hold', '        lw__description_send(claim);\n        holds->events->renewed',
        '        holds->events->renewed'))],
     SHOWN, ('its_ttl*',)),
    ([('a handle with a note shares its token',
       ('src/lock', 'lock->extras->note == NULL &&', 'true &&'))],
     SHOWN, ('handles_of*',)),
    ([('no_identity keeps nothing back',
       ('src/lock', 'client->options.no_identity ? NULL : ', 'client->options.no_identity > 1 ? NULL : '))],
     SHOWN, ('without_an*',)),
    ([('a description is shown for the next holder as well',
       ('scripts/lua/inspect.lua',
        "description:sub(1, #value + 1) ~= value .. ' ' then", 'false then'))],
     SCRIPT, ('the_next*',)),
    ([('an adoption drops the note',
       ('scripts/lua/fragments/described.lua', "note ~= '' and note or its_note or ''", 'note'))],
     SCRIPT, ('an_adoption*',)),
    ([('a released hold of a read-write lock leaves its description',
       ('scripts/lua/fragments/rw.lua', "    change('d:' .. token, false)\n    if kind", '    if kind'))],
     SCRIPT, ('a_writer*',)),
    ([('an expired hold of a read-write lock leaves its description',
       ('scripts/lua/fragments/rw.lua', "if changes['h' .. field:sub(2)] == false then", 'if false then'))],
     SCRIPT, ('it_goes*',)),
]
