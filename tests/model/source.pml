/* A prefill node: one task a request, one placement at a time, one write in flight a pair. */
#define KEY(i, r) (task_attempt[TI(i, r)] * 4 + task_placement[TI(i, r)])
/* Release although a write is outstanding */
#ifdef M_EARLY_RELEASE
#define OUTSTANDING(i, r) (0)
#else
#define OUTSTANDING(i, r) (write_busy[pair] && write_req[pair] == r && write_key[pair] == KEY(i, r))
#endif
inline DropPlacement(i, r) {
  /* give up the current placement: drain, then Release{drained} */
  if
  :: task_state[TI(i, r)] >= T_PUSHING ->
     pair = PX(i, task_sink[TI(i, r)]);
     if
     :: OUTSTANDING(i, r) -> write_release[pair] = 1
     :: else -> SENDIF(LPD(i, task_sink[TI(i, r)]), PD[pair], RELEASE, r, KEY(i, r), 0)
     fi;
     pair = 0
  :: else -> skip
  fi;
  task_slot[TI(i, r)] = 0; task_noted[TI(i, r)] = 0; task_posted[TI(i, r)] = 0;
  task_fenced[TI(i, r)] = 0; task_sink_life[TI(i, r)] = 0; task_sink[TI(i, r)] = 0
}
inline ClearTask(i, r) {
  task_state[TI(i, r)] = 0; task_attempt[TI(i, r)] = 0; task_placement[TI(i, r)] = 0;
  task_sink[TI(i, r)] = 0; task_slot[TI(i, r)] = 0; task_first[TI(i, r)] = 0;
  task_spoke[TI(i, r)] = 0; task_noted[TI(i, r)] = 0; task_posted[TI(i, r)] = 0;
  task_fenced[TI(i, r)] = 0; task_sink_life[TI(i, r)] = 0
}
#define RUNP(i) (stopped[i] == 0)
#define P_RECVR(i) \
  :: d_step { \
       RUNP(i) && (len(RP[i]) > 0) && !end_unseen_b[LRP(i)] -> \
       RP[i]?type, req, key, arg; \
       printf("P%d<-R %d r%d a%d p%d x%d\n", i, type, req, key / 4, key % 4, arg); \
       if \
       :: type == PREFILL -> \
          if \
          :: task_state[TI(i, req)] -> DropPlacement(i, req); ClearTask(i, req) \
          :: else -> skip \
          fi; \
          task_state[TI(i, req)] = T_PLACING; task_attempt[TI(i, req)] = key / 4; \
          task_first[TI(i, req)] = arg \
       :: type == PLACEMENT_NOTED -> \
          if \
          :: task_state[TI(i, req)] == T_PUSHING && KEY(i, req) == key -> \
             task_noted[TI(i, req)] = 1 \
          :: else -> skip \
          fi \
       :: type == PLACEMENT_REFUSED -> \
          if \
          :: task_state[TI(i, req)] == T_PUSHING && KEY(i, req) == key -> \
             DropPlacement(i, req); task_state[TI(i, req)] = T_PLACING \
          :: else -> skip \
          fi \
       :: type == CANCEL -> \
          if \
          :: task_state[TI(i, req)] && task_attempt[TI(i, req)] <= (key / 4) -> \
             DropPlacement(i, req); ClearTask(i, req) \
          :: else -> skip \
          fi \
       fi; \
       type = 0; req = 0; key = 0; arg = 0 \
     }
/* the end of the connection to the router changes nothing */
#ifdef M_SOURCE_KEEPS
#define P_ENDR_ACT(i) skip
#else
#define P_ENDR_ACT(i) \
  idx = 0; \
  do \
  :: idx < NUM_REQUESTS -> \
     if \
     :: task_state[TI(i, idx)] -> DropPlacement(i, idx); ClearTask(i, idx) \
     :: else -> skip \
     fi; \
     idx++ \
  :: else -> break \
  od; \
  idx = 0
#endif
#define P_ENDR(i) \
  :: d_step { RUNP(i) && end_unseen_b[LRP(i)] -> end_unseen_b[LRP(i)] = 0; P_ENDR_ACT(i) }
#ifdef M_NO_FAILED
#define SAYFAILED(i, r) skip
#else
#define SAYFAILED(i, r) SENDIF(LRP(i), PR[i], FAILED, r, task_attempt[TI(i, r)] * 4, 0)
#endif
#define PDUP(i, j) (link_up[LPD(i, j)] && !end_unseen_a[LPD(i, j)])
#define P_PLACE(i, r) \
  :: d_step { \
       RUNP(i) && task_state[TI(i, r)] == T_PLACING && \
           (task_placement[TI(i, r)] == PLACEMENTS_MAX || (!PDUP(i, 0) && !PDUP(i, 1))) && \
           !end_unseen_b[LRP(i)] -> \
       SAYFAILED(i, r); ClearTask(i, r) \
     }
/* Refused{full} counts neither as placement nor as attempt: wait for a free block */
#if defined(FULL_WAITS) && !defined(M_FULL_COUNTS)
#define REFCOUNT(i) task_placement[TI(i, req)]--
#define HASROOM(j) \
  ((slot_state[SI(j, 0)] == S_FREE || slot_state[SI(j, NUM_BLOCKS - 1)] == S_FREE) && RUPD(j))
#else
#define REFCOUNT(i) skip
#define HASROOM(j) (1)
#endif
#define P_PLACED(i, r, j) \
  :: d_step { \
       RUNP(i) && task_state[TI(i, r)] == T_PLACING && \
           task_placement[TI(i, r)] < PLACEMENTS_MAX && PDUP(i, j) && HASROOM(j) && \
           (task_placement[TI(i, r)] > 0 || (task_attempt[TI(i, r)] + i + r) % 2 == j || \
           !PDUP(i, 1 - j) || !HASROOM(1 - j)) -> \
       task_placement[TI(i, r)]++; task_sink[TI(i, r)] = j; \
       task_sink_life[TI(i, r)] = sink_life[j]; task_state[TI(i, r)] = T_RESERVING; \
       SEND(PD[PX(i, j)], RESERVE, r, KEY(i, r), 0) \
     }
#define MINE(i, r, j) (task_sink[TI(i, r)] == j && KEY(i, r) == key)
#define HASPUT(i, j) \
  (write_busy[PX(i, j)] && write_req[PX(i, j)] == req && write_key[PX(i, j)] == key)
#define P_RECVD(i, j) \
  :: d_step { \
       RUNP(i) && (len(DP[PX(i, j)]) > 0) && !end_unseen_a[LPD(i, j)] -> \
       DP[PX(i, j)]?type, req, key, arg; \
       printf("P%d<-D%d %d r%d a%d p%d x%d\n", i, j, type, req, key / 4, key % 4, arg); \
       if \
       :: type == RESERVED -> \
          if \
          :: task_state[TI(i, req)] == T_RESERVING && MINE(i, req, j) -> \
             task_state[TI(i, req)] = T_PUSHING; task_slot[TI(i, req)] = arg; \
             SENDIF(LRP(i), PR[i], PLACED, req, key, j) \
          :: else -> SENDIF(LPD(i, j), PD[PX(i, j)], RELEASE, req, key, 0) \
          fi \
       :: type == RESERVE_REFUSED -> \
          if \
          :: task_state[TI(i, req)] == T_RESERVING && MINE(i, req, j) -> \
             task_state[TI(i, req)] = T_PLACING; task_sink[TI(i, req)] = 0; \
             task_sink_life[TI(i, req)] = 0; REFCOUNT(i) \
          :: else -> skip \
          fi \
       :: type == JOINED -> \
          if \
          :: task_state[TI(i, req)] == T_HANDING_OFF && MINE(i, req, j) -> ClearTask(i, req) \
          :: else -> skip \
          fi \
       :: type == REJECTED -> \
          if \
          :: task_state[TI(i, req)] == T_HANDING_OFF && MINE(i, req, j) -> \
             DropPlacement(i, req); task_state[TI(i, req)] = T_PLACING \
          :: else -> skip \
          fi \
       :: type == REVOKE -> \
          if \
          :: task_state[TI(i, req)] == T_PUSHING && MINE(i, req, j) -> \
             DropPlacement(i, req); task_state[TI(i, req)] = T_PLACING \
          :: !(task_state[TI(i, req)] == T_PUSHING && MINE(i, req, j)) && HASPUT(i, j) -> \
             write_release[PX(i, j)] = 1 \
          :: else -> SENDIF(LPD(i, j), PD[PX(i, j)], RELEASE, req, key, 0) \
          fi \
       fi; \
       type = 0; req = 0; key = 0; arg = 0 \
     }
/* connection end = D lost, so place anew also after HandOff */
#ifdef M_PLACE_ANEW_AFTER_HANDOFF
#define ENDD_HAND task_state[TI(i_, idx)] = T_PLACING
#else
#define ENDD_HAND task_state[TI(i_, idx)] = T_ASKING
#endif
#define P_ENDD(i, j) \
  :: d_step { \
       RUNP(i) && end_unseen_a[LPD(i, j)] -> \
       end_unseen_a[LPD(i, j)] = 0; idx = 0; \
       do \
       :: idx < NUM_REQUESTS -> \
          if \
          :: (task_state[TI(i, idx)] == T_RESERVING || task_state[TI(i, idx)] == T_PUSHING || \
              (PA && task_state[TI(i, idx)] == T_HANDING_OFF)) && task_sink[TI(i, idx)] == j -> \
             DropPlacement(i, idx); task_state[TI(i, idx)] = T_PLACING \
          :: !PA && task_state[TI(i, idx)] == T_HANDING_OFF && task_sink[TI(i, idx)] == j -> \
             task_state[TI(i, idx)] = T_ASKING \
          :: else -> skip \
          fi; \
          idx++ \
       :: else -> break \
       od; \
       idx = 0 \
     }
#ifdef M_PLACE_ANEW_AFTER_HANDOFF
#define PA 1
#else
#define PA 0
#endif
#ifdef M_NO_SINK_INCARNATION
#define SAMED(i, r) (1)
#else
#define SAMED(i, r) (task_sink_life[TI(i, r)] == sink_life[task_sink[TI(i, r)]])
#endif
#define P_ASK(i, r) \
  :: d_step { \
       RUNP(i) && task_state[TI(i, r)] == T_ASKING && PDUP(i, task_sink[TI(i, r)]) && \
           SAMED(i, r) -> \
       task_state[TI(i, r)] = T_HANDING_OFF; \
       SEND(PD[PX(i, task_sink[TI(i, r)])], HAND_OFF, r, KEY(i, r), task_first[TI(i, r)]) \
     } \
  :: d_step { \
       RUNP(i) && task_state[TI(i, r)] == T_ASKING && \
           (!PDUP(i, task_sink[TI(i, r)]) || !SAMED(i, r)) -> \
       DropPlacement(i, r); task_state[TI(i, r)] = T_PLACING \
     }
#define P_FT(i, r) \
  :: d_step { \
       RUNP(i) && task_state[TI(i, r)] && !task_spoke[TI(i, r)] -> \
       task_spoke[TI(i, r)] = 1; \
       SENDIF(LRP(i), PR[i], FIRST_TOKEN, r, task_attempt[TI(i, r)] * 4, task_first[TI(i, r)]); \
       if \
       :: task_first[TI(i, r)] == NUM_TOKENS - 1 -> DropPlacement(i, r); ClearTask(i, r) \
       :: else -> skip \
       fi \
     }
/* a put on an endpoint the other side has closed fails */
#ifdef RDMA
#define EPUP(i, j) PDUP(i, j)
#else
#define EPUP(i, j) (1)
#endif
#define P_PUT(i, r) \
  :: d_step { \
       RUNP(i) && task_state[TI(i, r)] == T_PUSHING && !task_posted[TI(i, r)] && \
           !write_busy[PX(i, task_sink[TI(i, r)])] && EPUP(i, task_sink[TI(i, r)]) -> \
       task_posted[TI(i, r)] = 1; pair = PX(i, task_sink[TI(i, r)]); \
       write_busy[pair] = 1; write_req[pair] = r; write_key[pair] = KEY(i, r); \
       write_slot[pair] = task_slot[TI(i, r)]; write_life[pair] = task_sink_life[TI(i, r)]; \
       pair = 0 \
     }
#ifdef M_NO_NOTED_WAIT
#define NOTEDOK(i, r) (1)
#else
#define NOTEDOK(i, r) (task_noted[TI(i, r)])
#endif
#ifdef M_NO_FENCE
#define FENCED(i, r) (task_posted[TI(i, r)])
#else
#ifdef TCP
/* the control message may overtake the data messages */
#define FENCED(i, r) (task_posted[TI(i, r)])
#else
#define FENCED(i, r) (task_fenced[TI(i, r)])
#endif
#endif
#define P_HAND(i, r) \
  :: d_step { \
       RUNP(i) && task_state[TI(i, r)] == T_PUSHING && FENCED(i, r) && NOTEDOK(i, r) && \
           task_spoke[TI(i, r)] && PDUP(i, task_sink[TI(i, r)]) -> \
       task_state[TI(i, r)] = T_HANDING_OFF; \
       SEND(PD[PX(i, task_sink[TI(i, r)])], HAND_OFF, r, KEY(i, r), task_first[TI(i, r)]) \
     }
/* a write lands */
#ifdef M_NO_ARENA_CHECK
#define ARENA(i, j) (1)
#else
#define ARENA(i, j) (write_life[PX(i, j)] == sink_life[j])
#endif
#ifdef RDMA
#define CANLAND(i) (1)
#else
#define CANLAND(i) RUNP(i)
#endif
#ifdef M_UNPIN_EARLY
#define PINNED(i, j) \
  assert(task_state[TI(i, write_req[PX(i, j)])] && \
      task_attempt[TI(i, write_req[PX(i, j)])] == write_key[PX(i, j)] / 4)
#else
#define PINNED(i, j) skip
#endif
#define PUTDONE(i, j) \
  if \
  :: task_state[TI(i, write_req[PX(i, j)])] == T_PUSHING && \
      task_sink[TI(i, write_req[PX(i, j)])] == j && \
      task_attempt[TI(i, write_req[PX(i, j)])] * 4 + task_placement[TI(i, write_req[PX(i, \
      j)])] == write_key[PX(i, j)] -> \
     task_fenced[TI(i, write_req[PX(i, j)])] = 1 \
  :: else -> skip \
  fi; \
  if \
  :: write_release[PX(i, j)] -> \
     SENDIF(LPD(i, j), PD[PX(i, j)], RELEASE, write_req[PX(i, j)], write_key[PX(i, j)], 0) \
  :: else -> skip \
  fi; \
  write_busy[PX(i, j)] = 0; write_req[PX(i, j)] = 0; write_key[PX(i, j)] = 0; \
  write_slot[PX(i, j)] = 0; write_life[PX(i, j)] = 0; write_release[PX(i, j)] = 0
#ifdef TCP
/* lost with the connection */
#define P_LAND(i, j) \
  :: d_step { \
       write_busy[PX(i, j)] && \
           (!link_up[LPD(i, j)] || write_life[PX(i, j)] != sink_life[j]) && RUNP(i) -> \
       PUTDONE(i, j) \
     }
#else
/* no foreign write */
#define P_LAND(i, j) \
  :: d_step { \
       write_busy[PX(i, j)] && CANLAND(i) -> \
       idx = SI(j, write_slot[PX(i, j)]); \
       if \
       :: ARENA(i, j) -> \
          PINNED(i, j); \
          assert((slot_state[idx] == S_RESERVED || slot_state[idx] == S_QUARANTINED) && \
              slot_req[idx] == write_req[PX(i, j)] && slot_key[idx] == write_key[PX(i, j)]); \
          slot_whole[idx] = 1 \
       :: else -> skip \
       fi; \
       idx = 0; PUTDONE(i, j) \
     }
#endif
#define P_TASK(i, r) \
  P_PLACE(i, r) P_PLACED(i, r, 0) P_PLACED(i, r, 1) P_ASK(i, r) P_FT(i, r) P_PUT(i, r) \
  P_HAND(i, r)
active proctype P0() {
  do
    P_RECVR(0) P_ENDR(0) P_RECVD(0, 0) P_RECVD(0, 1) P_ENDD(0, 0) P_ENDD(0, 1) P_LAND(0, 0)
    P_LAND(0, 1) P_TASK(0, 0)
#if NUM_REQUESTS>1
    P_TASK(0, 1)
#endif
  od
}
active proctype P1() {
  do
    P_RECVR(1) P_ENDR(1) P_RECVD(1, 0) P_RECVD(1, 1) P_ENDD(1, 0) P_ENDD(1, 1) P_LAND(1, 0)
    P_LAND(1, 1) P_TASK(1, 0)
#if NUM_REQUESTS>1
    P_TASK(1, 1)
#endif
  od
}
