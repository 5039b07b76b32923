/* SPDX-License-Identifier: MIT */
/*
 * Detaching and adopting a mutex. A holder detaches its lock. Two clients adopt its token, and one
 * of them may detach the lock again. Another client acquires the lock when it is free. Every reply
 * may be lost, after which the command is sent again, and a copy of each command may be executed
 * once more at any later time. Checked exhaustively, for safety:
 *
 *   never do two clients believe, and the fencing tokens of grants that are believed increase;
 *   no command of an earlier holder shortens the lease of an adopter: while a client believes, the
 *   key has its token, and does not expire.
 *
 * Assumed, as in handover.pml: a key does not expire while its holder believes, unless its TTL was
 * shortened. A script is atomic.
 *
 * -DWRONG_TOKEN:   an adopter keeps the token that it adopts.
 * -DWRONG_COMPARE: a detach does not compare the token.
 * -DWRONG_ANSWER: an adoption that finds neither token counts as granted.
 */
#define NONE 0
#define HOLDER 1 /* clients; the number of a client is also its token */
#define ADOPTER_A 2
#define ADOPTER_B 3
#define OTHER 4
#define CLIENTS 5

byte key = HOLDER;     /* the token that has the lock; NONE if it is free */
byte user = HOLDER;    /* the last client that relied on that token */
byte lost = 3;         /* how many more replies to adopters may be lost */
bool shortened;        /* the key's TTL was set by a detach */
byte fence = 1, believed_fence = 1;
bool believes[CLIENTS];
bool late_renewal, late_release, late_detach[CLIENTS], late_adoption[CLIENTS];

inline renew(token) {
    if
    :: key == token -> skip /* never shortens: a detached key keeps its TTL, or gets more */
    :: else -> skip
    fi
}

inline detach(token) {
    if
#ifdef WRONG_COMPARE
    :: key != NONE -> shortened = true
#else
    :: key == token -> shortened = true
#endif
    :: else -> skip
    fi
}

inline release(token) {
    if
    :: key == token -> key = NONE; shortened = false
    :: else -> skip
    fi
}

/* Sets `granted`. */
inline adopt(me, old) {
    granted = false;
    if
    :: key == old || key == me ->
#ifndef WRONG_TOKEN
        key = me;
#endif
        user = me;
        shortened = false;
        fence++;
        granted = true
    :: else ->
#ifdef WRONG_ANSWER
        granted = true
#endif
        skip
    fi
}

/* The reply to a grant arrives in time. */
inline believe(me) {
    assert(!believes[HOLDER] && !believes[ADOPTER_A] && !believes[ADOPTER_B] && !believes[OTHER]);
    assert(fence > believed_fence);
    believed_fence = fence;
    believes[me] = true
}

proctype holder() {
    atomic { believes[HOLDER] = false; late_detach[HOLDER] = true; detach(HOLDER) }
    do
    :: atomic { detach(HOLDER) } /* sent again */
    :: break
    od;
    if
    :: atomic { release(HOLDER); late_release = true } /* sent by an operator with the token */
    :: skip
    fi
}

/* Adopts the holder's token, or that of the other adopter, which detached it. */
proctype adopter(byte me; byte other) {
    bool granted;
    byte old = HOLDER;

    (!believes[HOLDER]);
    if
    :: (late_detach[other]) -> old = other
    :: skip
    fi;
    do
    :: atomic {
           adopt(me, old);
           late_adoption[me] = true;
           if
           :: granted -> believe(me); break
           :: lost > 0 -> lost-- /* the reply is lost */
           :: !granted -> goto gone
           fi
       }
    :: goto gone
    od;
    if
    :: atomic { believes[me] = false; late_detach[me] = true; detach(me) }
    :: atomic { believes[me] = false; release(me) }
    fi;
gone:
    skip
}

proctype other() {
    atomic { key == NONE -> key = OTHER; user = OTHER; shortened = false; fence++; believe(OTHER) }
    atomic { believes[OTHER] = false; release(OTHER) }
}

/* A key whose user believes expires only if its TTL was shortened. */
proctype expiry() {
    do
    :: atomic { key != NONE && (shortened || !believes[user]) ->
           assert(!believes[user]);
           key = NONE;
           shortened = false }
    :: timeout -> break
    od
}

proctype late() {
    bool granted;

    do
    :: atomic { late_renewal -> late_renewal = false; renew(HOLDER) }
    :: atomic { late_release -> late_release = false; release(HOLDER) }
    :: atomic { late_detach[HOLDER] -> late_detach[HOLDER] = false; detach(HOLDER) }
    :: atomic { late_adoption[ADOPTER_A] -> late_adoption[ADOPTER_A] = false;
           adopt(ADOPTER_A, HOLDER) }
    :: atomic { late_adoption[ADOPTER_B] -> late_adoption[ADOPTER_B] = false;
           adopt(ADOPTER_B, HOLDER) }
    :: timeout -> break
    od
}

/* Checks at any time. */
proctype monitor() {
    do
    :: atomic { (believes[ADOPTER_A] && user != ADOPTER_A) || (believes[ADOPTER_B] && user != ADOPTER_B) ||
           (believes[OTHER] && key != OTHER) -> assert(false) }
    :: timeout -> break
    od
}

init {
    atomic {
        believes[HOLDER] = true;
        late_renewal = true;
        run holder();
        run other();
        run expiry();
        run late();
        run monitor();
        run adopter(ADOPTER_A, ADOPTER_B);
        run adopter(ADOPTER_B, ADOPTER_A)
    }
}
