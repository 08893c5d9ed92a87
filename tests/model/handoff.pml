/* The hand-off protocol (common/handoff/PROTOCOL.md) for Spin: 1 router R, 2 prefill nodes P,
 * 2 decode nodes D. One file a party: router.pml, source.pml, sink.pml; faults.pml breaks, stops and
 * kills them and says what must hold.
 *
 * Transport: -DSHM (the default), -DTCP or -DRDMA. Sizes: the definitions below. -DM_... leaves one
 * rule out, to see that Spin notices (README.md). Every handler is one d_step; the scratch variables
 * are hidden. Runs are finite, because faults, attempts and placements are bounded: so "progress" is
 * that no bad state is one in which nothing more can happen (Monitor in faults.pml).
 */
#ifndef NUM_REQUESTS
#define NUM_REQUESTS 1
#endif
#ifndef NUM_FAULTS
#define NUM_FAULTS 1
#endif
#ifndef NUM_BLOCKS
#define NUM_BLOCKS 1 /* per decode node; a block is a whole sequence */
#endif
#ifndef NUM_TOKENS
#define NUM_TOKENS 3 /* of each request */
#endif
#ifndef ATTEMPTS_MAX
#define ATTEMPTS_MAX 3
#endif
#ifndef PLACEMENTS_MAX
#define PLACEMENTS_MAX 2
#endif
#ifndef TCP
#ifndef RDMA
#define SHM
#endif
#endif
#ifndef QUEUE_MAX
#define QUEUE_MAX 5
#endif
/* Messages: type, request, key = attempt * 4 + placement (3: all placements), argument. */
#define PREFILL 1
#define PLACEMENT_NOTED 2
#define PLACEMENT_REFUSED 3
#define CANCEL 4
#define FIRST_TOKEN 5
#define PLACED 6
#define FAILED 7
#define TOKENS 8
#define RESERVE 9
#define RESERVED 10
#define RESERVE_REFUSED 11
#define HAND_OFF 12
#define JOINED 13
#define REJECTED 14
#define REVOKE 15
#define RELEASE 16

chan RP[2] = [QUEUE_MAX] of { byte, byte, byte, byte };
chan PR[2] = [QUEUE_MAX] of { byte, byte, byte, byte };
chan RD[2] = [QUEUE_MAX] of { byte, byte, byte, byte };
chan DR[2] = [QUEUE_MAX] of { byte, byte, byte, byte };
chan PD[4] = [QUEUE_MAX] of { byte, byte, byte, byte };
chan DP[4] = [QUEUE_MAX] of { byte, byte, byte, byte };
#define LRP(i) (i)
#define LRD(j) (2 + (j))
#define PX(i, j) (2 * (i) + (j))
#define LPD(i, j) (4 + PX(i, j))
byte link_up[8] = 1;
/* A connection has ended and its end A (R, or P of a pair P-D) or B has not noticed. */
bit end_unseen_a[8]; bit end_unseen_b[8];

/* The router; client_ is what the client saw. */
#define QUEUED 0
#define ACTIVE 1
#define DONE 2
#define GAVE_UP 3
#define CLIENT_LEFT 4
byte request_state[NUM_REQUESTS]; byte attempt[NUM_REQUESTS] = 1;
byte next_position[NUM_REQUESTS]; byte noted[NUM_REQUESTS]; byte noted_sink[NUM_REQUESTS];
byte source_of[NUM_REQUESTS]; bit heard_decode[NUM_REQUESTS];
byte client_got[NUM_REQUESTS]; byte client_key[NUM_REQUESTS];

/* A prefill node. */
#define T_PLACING 1
#define T_RESERVING 2
#define T_PUSHING 3
#define T_HANDING_OFF 4
#define T_ASKING 5
#define TI(i, r) ((i) * NUM_REQUESTS + (r))
byte task_state[2 * NUM_REQUESTS]; byte task_attempt[2 * NUM_REQUESTS];
byte task_placement[2 * NUM_REQUESTS]; byte task_sink[2 * NUM_REQUESTS];
byte task_slot[2 * NUM_REQUESTS]; byte task_first[2 * NUM_REQUESTS];
bit task_spoke[2 * NUM_REQUESTS]; bit task_noted[2 * NUM_REQUESTS];
bit task_posted[2 * NUM_REQUESTS]; bit task_fenced[2 * NUM_REQUESTS];
byte task_sink_life[2 * NUM_REQUESTS];
/* One write in flight a pair. */
bit write_busy[4]; byte write_req[4]; byte write_key[4]; byte write_slot[4];
byte write_life[4]; bit write_release[4]; byte source_life[2];
byte stopped[2];

/* A decode node. */
#define S_FREE 0
#define S_RESERVED 1
#define S_JOINED 2
#define S_QUARANTINED 3
#define SI(j, key) ((j) * NUM_BLOCKS + (key))
byte slot_state[2 * NUM_BLOCKS]; byte slot_req[2 * NUM_BLOCKS];
byte slot_key[2 * NUM_BLOCKS]; byte slot_source[2 * NUM_BLOCKS];
byte slot_source_life[2 * NUM_BLOCKS]; bit slot_whole[2 * NUM_BLOCKS];
byte slot_next[2 * NUM_BLOCKS]; bit revoke_sent[2 * NUM_BLOCKS];
byte handoff_waits[2 * NUM_BLOCKS]; bit awaits_credit[2 * NUM_BLOCKS];  /* a window of one token */
byte sink_life[2];
#ifdef TCP
bit receive_busy[2]; byte receive_req[2]; byte receive_key[2];
byte receive_slot[2];  /* receive that D itself has posted into a block */
#endif
byte num_faults; bit client_left;
hidden byte type, req, key, arg, idx, found, pair;

#define SEND(c, t_, r_, k_, x_) assert(nfull(c)); c!t_, r_, k_, x_
#define SENDIF(l, c, t_, r_, k_, x_) if :: link_up[l] -> SEND(c, t_, r_, k_, x_) :: else -> skip fi
#define FLUSH(c) do :: (len(c) > 0) -> c?type, req, key, arg :: else -> break od

/* Reduction: an end for which noticing the end of the connection would change nothing notices at
 * once; faults hit only what is in use. */
#define T_ON(i, r, j) (task_state[TI(i, r)] >= T_RESERVING && task_sink[TI(i, r)] == j)
#define SL_P(q, i) (slot_state[q] != S_FREE && slot_state[q] != S_JOINED && slot_source[q] == i)
#define SL_R(q) (slot_state[q] == S_JOINED || slot_state[q] == S_RESERVED)
#define USE_RP_A(i) \
  ((request_state[0] == ACTIVE && \
      source_of[0] == i) || (request_state[NUM_REQUESTS - 1] == ACTIVE && \
      source_of[NUM_REQUESTS - 1] == i))
#define USE_RP_B(i) (task_state[TI(i, 0)] || task_state[TI(i, NUM_REQUESTS - 1)])
#define USE_RD_A(j) \
  ((request_state[0] == ACTIVE && noted[0] > 0 && \
      noted_sink[0] == j) || (request_state[NUM_REQUESTS - 1] == ACTIVE && \
      noted[NUM_REQUESTS - 1] > 0 && noted_sink[NUM_REQUESTS - 1] == j))
#define USE_RD_B(j) (SL_R(SI(j, 0)) || SL_R(SI(j, NUM_BLOCKS - 1)))
#define USE_PD_A(i, j) (T_ON(i, 0, j) || T_ON(i, NUM_REQUESTS - 1, j))
#define USE_PD_B(i, j) (SL_P(SI(j, 0), i) || SL_P(SI(j, NUM_BLOCKS - 1), i))
#define BRK(l, c1, c2, ua, ub) \
  link_up[l] = 0; end_unseen_a[l] = (ua); end_unseen_b[l] = (ub); \
  FLUSH(c1); FLUSH(c2)
#define BRP(i) BRK(LRP(i), RP[i], PR[i], USE_RP_A(i), USE_RP_B(i))
#define BRD(j) BRK(LRD(j), RD[j], DR[j], USE_RD_A(j), USE_RD_B(j))
#define BPD(i, j) BRK(LPD(i, j), PD[PX(i, j)], DP[PX(i, j)], USE_PD_A(i, j), USE_PD_B(i, j))
#define IN_RP(i) (USE_RP_A(i) || USE_RP_B(i) || len(RP[i]) + len(PR[i]) > 0)
#define IN_RD(j) (USE_RD_A(j) || USE_RD_B(j) || len(RD[j]) + len(DR[j]) > 0)
#define IN_PD(i, j) \
  (USE_PD_A(i, j) || USE_PD_B(i, j) || write_busy[PX(i, j)] || \
      len(PD[PX(i, j)]) + len(DP[PX(i, j)]) > 0)

#include "router.pml"
#include "source.pml"
#include "sink.pml"
#include "faults.pml"
