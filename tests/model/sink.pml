/* A decode node: reservations, quarantine and its proofs by transport, sequences. */
inline FreeSlot(q) {
  slot_state[q] = 0; slot_req[q] = 0; slot_key[q] = 0; slot_source[q] = 0;
  slot_source_life[q] = 0; slot_whole[q] = 0; slot_next[q] = 0;
  revoke_sent[q] = 0; handoff_waits[q] = 0; awaits_credit[q] = 0
}
#ifdef TCP
#define PENDING(j, q) (receive_busy[j] && receive_slot[j] == (q))
#endif
inline Quarantine(j, q) {
  /* Reserved -> Quarantined; an unanswered HandOff is answered */
  if
  :: handoff_waits[q] ->
     SENDIF(LPD(slot_source[q], j), DP[PX(slot_source[q], j)], REJECTED, slot_req[q],
         slot_key[q], 0);
     handoff_waits[q] = 0
  :: else -> skip
  fi;
#ifdef M_NO_QUARANTINE
  FreeSlot(q)
#else
#ifdef TCP
#ifdef M_FREE_WITH_RECEIVE
  FreeSlot(q)  /* none needed */
#else
  if
  :: PENDING(j, q) -> slot_state[q] = S_QUARANTINED; revoke_sent[q] = 0
  :: else -> FreeSlot(q)
  fi
#endif
#else
  slot_state[q] = S_QUARANTINED; revoke_sent[q] = 0
#endif
#endif
}
inline FindSlot(j, r, key_) {
  /* found: its index, or 99 */
  found = 99; idx = 0;
  do
  :: idx < NUM_BLOCKS ->
     if
     :: slot_state[SI(j, idx)] && slot_req[SI(j, idx)] == r && slot_key[SI(j, idx)] == key_ ->
        found = SI(j, idx)
     :: else -> skip
     fi;
     idx++
  :: else -> break
  od;
  idx = 0
}
inline FindFree(j) {
  found = 99; idx = 0;
  do
  :: idx < NUM_BLOCKS ->
     if :: slot_state[SI(j, idx)] == S_FREE -> found = idx :: else -> skip fi;
     idx++
  :: else -> break
  od;
  idx = 0
}
/* the decode node starts after the prefill node's token */
#ifdef M_NO_REPEAT_ON_JOIN
#define FIRSTPOS(f) ((f) + 1)
#else
#define FIRSTPOS(f) (f)
#endif
#ifdef M_NO_REPEATED_JOINED
#define IDEM REJECTED
#else
#define IDEM JOINED
#endif
/* bytes missing at HandOff: rejected */
#ifdef M_REJECT_WHEN_BYTES_MISS
#define MISSING(i, j) SENDIF(LPD(i, j), DP[PX(i, j)], REJECTED, req, key, 0); Quarantine(j, found)
#else
#define MISSING(i, j) handoff_waits[found] = arg + 1
#endif
#define D_RECVP(j, i) \
  :: d_step { \
       (len(PD[PX(i, j)]) > 0) && !end_unseen_b[LPD(i, j)] -> \
       PD[PX(i, j)]?type, req, key, arg; \
       printf("D%d<-P%d %d r%d a%d p%d x%d\n", j, i, type, req, key / 4, key % 4, arg); \
       if \
       :: type == RESERVE -> \
          FindFree(j); \
          if \
          :: found < 99 && RUPD(j) -> \
             SEND(DP[PX(i, j)], RESERVED, req, key, found); found = SI(j, found); \
             slot_state[found] = S_RESERVED; slot_req[found] = req; \
             slot_key[found] = key; slot_source[found] = i; \
             slot_source_life[found] = source_life[i] \
          :: else -> SEND(DP[PX(i, j)], RESERVE_REFUSED, req, key, 0) \
          fi \
       :: type == HAND_OFF -> \
          FindSlot(j, req, key); \
          if \
          :: found < 99 && slot_state[found] == S_RESERVED && WHOLE(found) -> \
             slot_state[found] = S_JOINED; slot_next[found] = FIRSTPOS(arg); \
             SEND(DP[PX(i, j)], JOINED, req, key, 0) \
          :: found < 99 && slot_state[found] == S_JOINED -> SEND(DP[PX(i, j)], IDEM, req, key, 0) \
          :: found < 99 && slot_state[found] == S_RESERVED && !WHOLE(found) -> MISSING(i, j) \
          :: else -> SEND(DP[PX(i, j)], REJECTED, req, key, 0) \
          fi \
       :: type == RELEASE -> \
          FindSlot(j, req, key); \
          if \
          :: found < 99 && (slot_state[found] == S_RESERVED || \
              slot_state[found] == S_QUARANTINED) -> \
             RELFREE(j, found) \
          :: else -> skip \
          fi \
       fi; \
       found = 0; type = 0; req = 0; key = 0; arg = 0 \
     }
#ifdef TCP
#define RELFREE(j, q) Quarantine(j, q)
#else
#define RELFREE(j, q) FreeSlot(q)
#endif
#ifdef M_NO_BYTE_COUNT
#define WHOLE(q) (1)
#else
#define WHOLE(q) (slot_whole[q])
#endif
#define D_CANCEL(j) \
  :: d_step { \
       (len(RD[j]) > 0) && !end_unseen_b[LRD(j)] -> \
       RD[j]?type, req, key, arg; idx = 0; \
       printf("D%d<-R %d r%d a%d p%d x%d\n", j, type, req, key / 4, key % 4, arg); \
       do \
       :: idx < NUM_BLOCKS -> \
          if \
          :: slot_state[SI(j, idx)] && slot_req[SI(j, idx)] == req && \
              CANMATCH(slot_key[SI(j, idx)]) -> \
             if \
             :: slot_state[SI(j, idx)] == S_JOINED -> FreeSlot(SI(j, idx)) \
             :: slot_state[SI(j, idx)] == S_RESERVED -> Quarantine(j, SI(j, idx)) \
             :: else -> skip \
             fi \
          :: else -> skip \
          fi; \
          idx++ \
       :: else -> break \
       od; \
       idx = 0; type = 0; req = 0; key = 0; arg = 0 \
     }
/* Cancel names the attempt = all its placements, also when only one is replaced */
#ifdef M_CANCEL_WHOLE_ATTEMPT
#define CANMATCH(key_) ((key_) / 4 <= key / 4)
#else
#define CANMATCH(key_) ((key_) <= key)
#endif
#define D_ENDR(j) \
  :: d_step { \
       end_unseen_b[LRD(j)] -> \
       end_unseen_b[LRD(j)] = 0; idx = 0; \
       do \
       :: idx < NUM_BLOCKS -> \
          if \
          :: slot_state[SI(j, idx)] == S_JOINED -> FreeSlot(SI(j, idx)) \
          :: slot_state[SI(j, idx)] == S_RESERVED && ENDR_ALL -> Quarantine(j, SI(j, idx)) \
          :: else -> skip \
          fi; \
          idx++ \
       :: else -> break \
       od; \
       idx = 0 \
     }
/* reservations of a lost router are kept */
#ifdef M_SINK_KEEPS_RESERVED
#define ENDR_ALL 0
#else
#define ENDR_ALL 1
#endif
#ifdef M_REVOKE_ONCE
#define RVR(j, idx) skip
#else
#define RVR(j, idx) revoke_sent[SI(j, idx)] = 0
#endif
#define D_ENDP(j, i) \
  :: d_step { \
       end_unseen_b[LPD(i, j)] -> \
       end_unseen_b[LPD(i, j)] = 0; idx = 0; \
       do \
       :: idx < NUM_BLOCKS -> \
          if \
          :: slot_state[SI(j, idx)] == S_RESERVED && slot_source[SI(j, idx)] == i -> \
             Quarantine(j, SI(j, idx)) \
          :: slot_state[SI(j, idx)] == S_QUARANTINED && slot_source[SI(j, idx)] == i -> \
             RVR(j, idx) \
          :: else -> skip \
          fi; \
          idx++ \
       :: else -> break \
       od; \
       idx = 0 \
     }
/* Release{drained} has no answer, Revoke is not repeated on a new connection */
#ifdef M_REVOKE_ONCE
#define REVOKEOK(j, q) (!revoke_sent[q])
#else
#define REVOKEOK(j, q) \
  (!revoke_sent[q] && link_up[LPD(slot_source[q], j)] && \
      !end_unseen_b[LPD(slot_source[q], j)] && source_life[slot_source[q]] == slot_source_life[q])
#endif
#define D_SLOT(j, q) \
  :: d_step { \
       slot_state[q] == S_QUARANTINED && REVOKEOK(j, q) -> \
       revoke_sent[q] = 1; \
       SENDIF(LPD(slot_source[q], j), DP[PX(slot_source[q], j)], REVOKE, slot_req[q], \
           slot_key[q], 0) \
     } \
  :: d_step { \
       slot_state[q] == S_JOINED && link_up[LRD(j)] && !end_unseen_b[LRD(j)] && \
           len(DR[j]) < 2 && !awaits_credit[q] -> \
       awaits_credit[q] = 1; SEND(DR[j], TOKENS, slot_req[q], slot_key[q], slot_next[q]); \
       if :: slot_next[q] == NUM_TOKENS - 1 -> FreeSlot(q) :: else -> slot_next[q]++ fi \
     } \
  D_GONE(j, q)
#ifdef SHM
/* treats the end of the connection as "writer gone" */
#ifdef M_CONNECTION_END_IS_PROOF
#define D_GONE(j, q) \
  :: d_step { slot_state[q] == S_QUARANTINED && !link_up[LPD(slot_source[q], j)] -> FreeSlot(q) }
#else
/* pidfd */
#define D_GONE(j, q) \
  :: d_step { \
       slot_state[q] == S_QUARANTINED && source_life[slot_source[q]] != slot_source_life[q] -> \
       FreeSlot(q) \
     }
#endif
#endif
/* D closes its end: nothing in flight can land any more, the link must be made again */
#ifdef RDMA
#define D_GONE(j, q) \
  :: d_step { \
       slot_state[q] == S_QUARANTINED -> \
       pair = PX(slot_source[q], j); found = slot_source[q]; \
       if \
       :: write_busy[pair] -> \
          write_busy[pair] = 0; write_req[pair] = 0; write_key[pair] = 0; \
          write_slot[pair] = 0; write_life[pair] = 0; write_release[pair] = 0 \
       :: else -> skip \
       fi; \
       if \
       :: link_up[LPD(found, j)] -> \
          link_up[LPD(found, j)] = 0; end_unseen_a[LPD(found, j)] = 1; \
          end_unseen_b[LPD(found, j)] = 0; FLUSH(PD[pair]); FLUSH(DP[pair]) \
       :: else -> skip \
       fi; \
       idx = 0; \
       do \
       :: idx < NUM_BLOCKS -> \
          if \
          :: slot_state[SI(j, idx)] == S_RESERVED && slot_source[SI(j, idx)] == found -> \
             slot_state[SI(j, idx)] = S_QUARANTINED \
          :: else -> skip \
          fi; \
          idx++ \
       :: else -> break \
       od; \
       FreeSlot(q); pair = 0; found = 0; idx = 0; type = 0; req = 0; \
       key = 0; arg = 0 \
     }
#endif
#ifdef TCP
#define D_GONE(j, q)
#ifdef M_STALE_DATA_TAKEN
#define DATAOK(pair) (1)
#else
#define DATAOK(pair) \
  (slot_state[idx] == S_RESERVED && slot_req[idx] == write_req[pair] && \
      slot_key[idx] == write_key[pair])
#endif
#define D_DATA(j, i) \
  :: d_step { \
       write_busy[PX(i, j)] && !receive_busy[j] && write_life[PX(i, j)] == sink_life[j] && \
           RUNP(i) -> \
       pair = PX(i, j); idx = SI(j, write_slot[pair]); \
       if \
       :: DATAOK(pair) -> \
          receive_busy[j] = 1; receive_req[j] = write_req[pair]; \
          receive_key[j] = write_key[pair]; receive_slot[j] = idx \
       :: else -> skip \
       fi; \
       pair = 0; idx = 0; PUTDONE(i, j) \
     }
#define D_COPY(j) \
  :: d_step { \
       receive_busy[j] -> \
       idx = receive_slot[j]; \
       assert((slot_state[idx] == S_RESERVED || slot_state[idx] == S_QUARANTINED) && \
           slot_req[idx] == receive_req[j] && slot_key[idx] == receive_key[j]); \
       receive_busy[j] = 0; receive_req[j] = 0; receive_key[j] = 0; \
       receive_slot[j] = 0; slot_whole[idx] = 1; \
       if \
       :: slot_state[idx] == S_QUARANTINED -> FreeSlot(idx) \
       :: slot_state[idx] == S_RESERVED && handoff_waits[idx] > 0 -> \
          slot_state[idx] = S_JOINED; slot_next[idx] = FIRSTPOS(handoff_waits[idx] - 1); \
          handoff_waits[idx] = 0; \
          SENDIF(LPD(slot_source[idx], j), DP[PX(slot_source[idx], j)], JOINED, slot_req[idx], \
              slot_key[idx], 0) \
       :: else -> skip \
       fi; \
       idx = 0 \
     }
#else
#define D_DATA(j, i)
#define D_COPY(j)
#endif
#if NUM_BLOCKS>1
#define D_SLOTS(j) D_SLOT(j, SI(j, 0)) D_SLOT(j, SI(j, 1))
#else
#define D_SLOTS(j) D_SLOT(j, SI(j, 0))
#endif
active proctype D0() {
  do
    D_RECVP(0, 0) D_RECVP(0, 1) D_CANCEL(0) D_ENDR(0) D_ENDP(0, 0) D_ENDP(0, 1) D_SLOTS(0)
    D_DATA(0, 0) D_DATA(0, 1) D_COPY(0)
  od
}
active proctype D1() {
  do
    D_RECVP(1, 0) D_RECVP(1, 1) D_CANCEL(1) D_ENDR(1) D_ENDP(1, 0) D_ENDP(1, 1) D_SLOTS(1)
    D_DATA(1, 0) D_DATA(1, 1) D_COPY(1)
  od
}
