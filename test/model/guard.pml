/* SPDX-License-Identifier: MIT */
/*
 * The guard's record (guard.lua), and clients with two guard times. One client has the shorter time,
 * two have the longer one. The server may lose its data, with the record or with a record that is then
 * another server's, and each loss ends all connections. A client that is cut off does nothing, and
 * relies on its lock until its lease ends. A lease is as long as the client's guard time: the longest
 * that it may be. Checked exhaustively, for safety:
 *
 *   when a client is granted the lock, no other client relies on it.
 *
 * Without CHANGE all clients run at any time. Assumed then, as lockwire-guard(7) says: if a holder with the
 * longer time may still rely on the lock, a client with the longer time reaches the server before a
 * wait for the shorter time ends. With CHANGE the clients with the longer time run first. Then the time
 * is lowered: they are stopped, except for a holder that cannot be reached; the longer time passes; the
 * record is deleted; the client with the shorter time starts.
 *
 * -DWRONG_UPTIME:   a server without a record grants locks at once.
 * -DWRONG_IDENTITY: a record of another server counts.
 * -DWRONG_TIMER:    a client opens when its wait ends, without another question.
 * -DWRONG_FROM:     a longer time that replaces a shorter one keeps its wait.
 * -DWRONG_ALONE:    the assumption does not hold.
 * -DWRONG_HASTE:    the time is lowered without a wait.
 */
#ifdef WRONG_HASTE
#define CHANGE
#endif
#define SHORT 0 /* clients */
#define CLIENTS 3
#define NONE 3
#define TIME(client) ((client) == SHORT -> 2 : 3)
#define LAST 9 /* the clock's last time */

mtype = { ASK, WAIT, OPEN };

byte now = 1;
byte server = 0, losses = 2;   /* the server's identity; losses to come */
byte key = NONE;               /* the holder by the server */
byte given, whose, from;          /* the record: guard time, 0 if it is lost; identity; time of its end */
mtype gate[CLIENTS] = ASK;
byte opens[CLIENTS];           /* when its wait ends, by its own clock */
bool relies[CLIENTS];
byte until[CLIENTS];           /* when its lease ends at the latest */
bool runs[CLIENTS] = true;

#define RELIES(client) (relies[client] && now < until[client])

/* guard.lua, and what the client does with its reply. */
inline ask(me) {
    if
    :: given != 0 && given != TIME(me) && (given > TIME(me) || from <= now) ->
        gate[me] = ASK /* refused */
    :: else ->
        if
#ifdef WRONG_UPTIME
        :: given == 0 -> from = now
#else
        :: given == 0 -> from = now + TIME(me)
#endif
#ifndef WRONG_FROM
        :: given != 0 && given != TIME(me) -> from = now + TIME(me)
#endif
#ifndef WRONG_IDENTITY
        :: given == TIME(me) && whose != server -> from = now + TIME(me)
#endif
        :: else -> skip
        fi;
        given = TIME(me);
        whose = server;
        opens[me] = from;
        if
        :: from <= now -> gate[me] = OPEN
        :: else -> gate[me] = WAIT
        fi
    fi
}

proctype client(byte me) {
end:
    do
    :: atomic { runs[me] && (gate[me] != OPEN || given != TIME(me) || whose != server) -> ask(me) }
#ifdef WRONG_TIMER
    :: atomic { runs[me] && gate[me] == WAIT && opens[me] <= now -> gate[me] = OPEN }
#endif
    :: atomic { runs[me] && gate[me] == OPEN && key == NONE ->
           assert(me == 0 || !RELIES(0));
           assert(me == 1 || !RELIES(1));
           assert(me == 2 || !RELIES(2));
           key = me;
           relies[me] = true;
           until[me] = now + TIME(me) }
    :: atomic { runs[me] && key == me && until[me] != now + TIME(me) -> until[me] = now + TIME(me) } /* renewed */
    :: atomic { runs[me] && key == me -> key = NONE; relies[me] = false }
    od
}

proctype trouble() {
end:
    do
    :: atomic { losses > 0 ->
           losses--;
           server++;
           key = NONE;
           gate[0] = ASK; gate[1] = ASK; gate[2] = ASK;
           if
           :: given = 0
           :: skip /* a copy of the data, without the last write */
           fi }
    od
}

#if defined(CHANGE) || defined(WRONG_ALONE)
#define MAY_PASS true
#else
/* Must be true before the clock goes on. */
#define MAY_PASS !(given == TIME(SHORT) && from == now + 1 && (RELIES(1) || RELIES(2)))
#endif

proctype clock() {
end:
    do
    :: atomic { now < LAST && MAY_PASS -> now++ }
    :: atomic { key != NONE && now >= until[key] -> key = NONE } /* the lease has ended */
    od
}

#ifdef CHANGE
proctype operator() {
    byte stopped;

    atomic { runs[1] = false; runs[2] = false; stopped = now }
#ifndef WRONG_HASTE
end:
    (now >= stopped + TIME(1));
#endif
    atomic { given = 0; runs[SHORT] = true }
}
#endif

init {
    atomic {
#ifdef CHANGE
        runs[SHORT] = false;
        run operator();
#endif
        run client(0);
        run client(1);
        run client(2);
        run trouble();
        run clock()
    }
}
