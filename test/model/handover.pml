/* SPDX-License-Identifier: MIT */
/*
 * The hand-over of a mutex between clients: joining, hand-over, a lost message, death while queued,
 * a hang, a late claim, local turns, expiry, a release that is sent twice. Checked exhaustively:
 *
 *   safety     never do two clients believe, and the fencing tokens of grants that are believed
 *              increase;
 *   liveness   a waiter that neither dies nor gives up is granted (`served` below).
 *
 * Assumed, and shown elsewhere:
 *   A1  A key does not expire while its holder believes. Belief ends at the deadline, which is
 *       counted from the sending of the command, less the drift (test/unit/machine.c, test/sim).
 *   A2  By the arithmetic of the claim window no hand-over is believed whose key has expired. So
 *       here a message is believed exactly if the key is still as it was handed over.
 *   A3  A script is atomic. Any message may be lost. Only LOST replies may be lost, and only LATE
 *       claims may come too late. After a loss the request is sent again.
 *   A4  Keys of clients that died or let a hold expire do expire.
 *
 * -DWRONG_DELETE:  a release only deletes the key and notifies the head, which waits for that.
 * -DWRONG_HEAD:    a free lock goes to the head only, without a check that the head is alive.
 * -DWRONG_RECEIPT: the window is counted from the receipt of the message.
 */
#define CLIENTS 3
#ifndef ROUNDS
#define ROUNDS 1 /* of the second client */
#endif
#define TURNS 1
#ifndef LATE
#define LATE 1
#endif
#ifndef LOST
#define LOST 1
#endif
#define NOBODY 255

byte holder = NOBODY, holder_token; /* the key's value */
byte fence, believed_fence;
chan queue = [CLIENTS] of { byte, byte }; /* client, token */

chan message_0 = [1] of { byte, byte };
chan message_1 = [1] of { byte, byte };
chan message_2 = [1] of { byte, byte };
#define MESSAGE(c) (c == 0 -> message_0 : (c == 1 -> message_1 : message_2))

bool alive[CLIENTS] = true;
bool believes[CLIENTS];
byte waits_with[CLIENTS]; /* the token that waits; 0 if none does */
byte ghost[CLIENTS];      /* a token whose release will be executed again; 0 if none */
byte late = LATE, lost = LOST;
bool waiting_0, held_0;   /* for `served` */

/* PUBLISH reaches a live process or none. The message may still be lost on the way. */
inline publish(c, t) {
    if
    :: c == 0 && nfull(message_0) -> message_0!t, fence
    :: c == 1 && nfull(message_1) -> message_1!t, fence
    :: c == 2 && nfull(message_2) -> message_2!t, fence
    :: true /* lost */
    fi
}

/* Inside a script: the free lock goes to the first live waiter. */
inline hand_over() {
    do
    :: holder == NOBODY && len(queue) > 0 ->
#ifdef WRONG_DELETE
        queue?<head, head_token>;
        publish(head, head_token);
        break
#else
#ifdef WRONG_HEAD
        break
#else
        queue?head, head_token;
        if
        :: alive[head] ->
            holder = head;
            holder_token = head_token;
            fence++;
            publish(head, head_token)
        :: else /* dead: the next one */
        fi
#endif
#endif
    :: else -> break
    od;
    head = 0;
    head_token = 0
}

inline release(c, t) {
    if
    :: holder == c && holder_token == t -> holder = NOBODY
    :: else -> if
               :: queue??[eval(c), eval(t)] -> queue??eval(c), eval(t)
               :: else
               fi
    fi;
    hand_over()
}

/* Grants, or puts into the queue. */
inline acquire(c, t) {
    if
    :: holder == NOBODY ->
        if
        :: len(queue) == 0 -> holder = c; holder_token = t; fence++
        :: queue?[eval(c), eval(t)] ->
            queue?eval(c), eval(t);
            holder = c;
            holder_token = t;
            fence++
        :: else ->
            if
            :: queue??[eval(c), eval(t)]
            :: else -> queue!c, t
            fi;
            hand_over()
        fi
    :: holder == c && holder_token == t /* repeated; the real script draws a new fence */
    :: else ->
        if
        :: queue??[eval(c), eval(t)]
        :: else -> queue!c, t
        fi
    fi
}

inline begin_belief(c, number) {
    believes[c] = true;
    assert(believes[0] + believes[1] + believes[2] == 1);
    assert(number > believed_fence);
    believed_fence = number;
    waits_with[c] = 0;
    if
    :: c == 0 -> waiting_0 = false; held_0 = true
    :: else
    fi
}

inline stop_waiting(c) {
    waits_with[c] = 0;
    if
    :: c == 0 -> waiting_0 = false
    :: else
    fi
}

proctype client(byte me; byte rounds; chan message) {
    byte token, round, t, number, turn, head, head_token;

    do
    :: round < rounds ->
        atomic {
            round++;
            token++;
            turn = 0;
            waits_with[me] = token;
            if
            :: me == 0 -> waiting_0 = true; held_0 = false
            :: else
            fi
        }
ask:
        atomic {
            acquire(me, token);
            if
            :: holder == me && holder_token == token ->
                if
                :: begin_belief(me, fence); goto holding
                :: lost > 0 -> lost--; goto wait /* the reply is lost, or too late */
                fi
            :: else
            fi
        }
wait:
        do
        :: atomic {
               message?t, number ->
               if
               :: t == token ->
#ifdef WRONG_RECEIPT
                   begin_belief(me, number);
                   goto holding
#else
#ifdef WRONG_DELETE
                   goto ask
#else
                   if
                   :: holder == me && holder_token == token && number == fence ->
                       begin_belief(me, number);
                       goto holding
                   :: else -> goto ask
                   fi
#endif
#endif
               :: else /* of an earlier token */
               fi
           }
#ifndef WRONG_DELETE
        :: true -> goto ask /* polling */
#endif
        :: atomic { me != 0 -> stop_waiting(me); release(me, token); goto ended }
        :: atomic { me != 0 -> stop_waiting(me); alive[me] = false; goto dead }
        od;
holding:
        if
        :: atomic { turn < TURNS -> turn++; goto holding } /* a local turn: no command */
        :: atomic { believes[me] = false; release(me, token) }
        :: atomic { /* the reply is lost: the release will be sent again, at any time */
               believes[me] = false;
               release(me, token);
               ghost[me] = token
           }
        :: believes[me] = false /* expired: a hang, or no renewal */
        :: atomic { me != 0 -> believes[me] = false; alive[me] = false; goto dead }
        fi;
ended:  skip
    :: atomic { ghost[me] != 0 -> release(me, ghost[me]); ghost[me] = 0 }
    :: round == rounds && ghost[me] == 0 -> break
    od;
dead:
    ghost[me] = 0
}

/* Expiry, by A1 and A4. A live waiter's claim comes too late at most LATE times. */
proctype expiry() {
end:
    do
    :: atomic {
           holder != NOBODY && !believes[holder] && waits_with[holder] != holder_token ->
           holder = NOBODY;
           holder_token = 0
       }
    :: atomic {
           holder != NOBODY && !believes[holder] && waits_with[holder] == holder_token &&
               late > 0 ->
           late--;
           holder = NOBODY;
           holder_token = 0
       }
    od
}

init {
    atomic {
        run client(0, 1, message_0);
        run client(1, ROUNDS, message_1);
        run client(2, 1, message_2);
        run expiry()
    }
}

ltl served { [] (waiting_0 -> <> held_0) }
