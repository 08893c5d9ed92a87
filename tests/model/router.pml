/* The router: a request from its queue to its end, over numbered attempts. */
inline CancelSource(i, r, key_) {
  if :: link_up[LRP(i)] -> SEND(RP[i], CANCEL, r, key_, 0) :: else -> skip fi
}
inline CancelSink(j, r, key_) {
  if :: link_up[LRD(j)] -> SEND(RD[j], CANCEL, r, key_, 0) :: else -> skip fi
}
inline NewAttempt(r) {
#ifndef M_NO_CANCEL
  CancelSource(source_of[r], r, attempt[r] * 4 + 3);
  if :: noted[r] > 0 -> CancelSink(noted_sink[r], r, attempt[r] * 4 + 3) :: else -> skip fi;
#endif
  attempt[r]++; noted[r] = 0; noted_sink[r] = 0; heard_decode[r] = 0;
  source_of[r] = 0;
  if
  :: attempt[r] > ATTEMPTS_MAX -> request_state[r] = GAVE_UP; attempt[r] = 0
  :: else -> request_state[r] = QUEUED
  fi
}
inline Deliver(r, key_, pos) {
  assert(pos == client_got[r]);  /* exactly once, in order */
  assert(key_ >= client_key[r]);  /* one voice, never back */
  client_key[r] = key_; client_got[r]++; next_position[r]++;
  if
  :: next_position[r] == NUM_TOKENS ->
     request_state[r] = DONE; attempt[r] = 0; noted[r] = 0; noted_sink[r] = 0;
     source_of[r] = 0; heard_decode[r] = 0; client_key[r] = 0
  :: else -> skip
  fi
}

#define R_RECVP(i) \
  :: d_step { \
       (len(PR[i]) > 0) && !end_unseen_a[LRP(i)] -> \
       PR[i]?type, req, key, arg; \
       printf("R<-P%d %d r%d a%d p%d x%d\n", i, type, req, key / 4, key % 4, arg); \
       if \
       :: type == FIRST_TOKEN -> \
          if \
          :: request_state[req] == ACTIVE && (key / 4) == attempt[req] && \
              arg == next_position[req] -> \
             Deliver(req, key, arg) \
          :: else -> skip \
          fi \
       :: type == PLACED -> \
          if \
          :: request_state[req] == ACTIVE && (key / 4) == attempt[req] && DECOK(req) && \
              (key % 4) > noted[req] -> \
             if \
             :: RDUP(arg) -> \
                SUPERSEDE(req) noted[req] = key % 4; noted_sink[req] = arg; \
                SEND(RP[i], PLACEMENT_NOTED, req, key, 0) \
             :: else -> SEND(RP[i], PLACEMENT_REFUSED, req, key, 0) \
             fi \
          :: else -> STALEPLACED(i) \
          fi \
       :: type == FAILED -> \
          if \
          :: request_state[req] == ACTIVE && (key / 4) == attempt[req] && !heard_decode[req] -> \
             NewAttempt(req) \
          :: else -> skip \
          fi \
       fi; \
       type = 0; req = 0; key = 0; arg = 0 \
     }
/* notes a placement on a node the router has lost */
#ifdef M_NOTES_LOST_SINK
#define RDUP(j) (1)
#else
#define RDUP(j) (link_up[LRD(j)] && !end_unseen_a[LRD(j)])
#endif
/* a new placement is noted even while tokens of the old one come */
#ifdef M_NOTES_WHILE_DECODING
#define DECOK(r) (1)
#else
#define DECOK(r) (!heard_decode[r])
#endif
/* nobody tells the decode node of the replaced placement */
#ifdef M_NO_CANCEL_OF_EARLIER
#define SUPERSEDE(r) skip;
#else
#define SUPERSEDE(r) \
  if \
  :: noted[r] > 0 -> CancelSink(noted_sink[r], r, attempt[r] * 4 + noted[r]) \
  :: else -> skip \
  fi;
#endif
/* a stale Placed is dropped and counted */
#ifdef M_STALE_PLACED_DROPPED
#define STALEPLACED(i) skip
#else
#define STALEPLACED(i) SEND(RP[i], CANCEL, req, (key / 4) * 4 + 3, 0)
#endif
#ifdef M_NO_VOICE
#define VOICE(r) (1)
#else
#define VOICE(r) (key == attempt[r] * 4 + noted[r] && noted[r] > 0)
#endif
#ifdef M_NO_POSITION_CHECK
#define POSOK(r) (1)
#else
#define POSOK(r) (arg == next_position[r])
#endif
/* everything else is dropped */
#ifdef M_GAP_DROPPED
#define GAP(r) skip
#else
#define GAP(r) NewAttempt(r)
#endif
#define R_RECVD(j) \
  :: d_step { \
       (len(DR[j]) > 0) && !end_unseen_a[LRD(j)] -> \
       DR[j]?type, req, key, arg; \
       printf("R<-D%d %d r%d a%d p%d x%d\n", j, type, req, key / 4, key % 4, arg); \
       if \
       :: request_state[req] == ACTIVE && VOICE(req) -> \
          heard_decode[req] = 1; idx = 0; \
          do \
          :: idx < NUM_BLOCKS -> \
             if \
             :: slot_state[SI(j, idx)] == S_JOINED && slot_req[SI(j, idx)] == req && \
                 slot_key[SI(j, idx)] == key -> \
                awaits_credit[SI(j, idx)] = 0 \
             :: else -> skip \
             fi; \
             idx++ \
          :: else -> break \
          od; \
          idx = 0; \
          if \
          :: type == FAILED -> NewAttempt(req) \
          :: type != FAILED && POSOK(req) -> Deliver(req, key, arg) \
          :: type != FAILED && !POSOK(req) && arg > next_position[req] -> GAP(req) \
          :: else -> skip \
          fi \
       :: else -> skip \
       fi; \
       type = 0; req = 0; key = 0; arg = 0 \
     }
#define R_ENDP(i) \
  :: d_step { \
       end_unseen_a[LRP(i)] -> \
       end_unseen_a[LRP(i)] = 0; FLUSH(PR[i]); idx = 0; \
       do \
       :: idx < NUM_REQUESTS -> \
          if \
          :: request_state[idx] == ACTIVE && source_of[idx] == i && !heard_decode[idx] -> \
             NewAttempt(idx) \
          :: else -> skip \
          fi; \
          idx++ \
       :: else -> break \
       od; \
       idx = 0; type = 0; req = 0; key = 0; arg = 0 \
     }
/* the decode node's loss counts only after Joined (first token seen) */
#ifdef M_NOTED_SINK_LOSS_IGNORED
#define DLOST(idx) heard_decode[idx]
#else
#define DLOST(idx) (noted[idx] > 0)
#endif
#define R_ENDD(j) \
  :: d_step { \
       end_unseen_a[LRD(j)] -> \
       end_unseen_a[LRD(j)] = 0; FLUSH(DR[j]); idx = 0; \
       do \
       :: idx < NUM_REQUESTS -> \
          if \
          :: request_state[idx] == ACTIVE && DLOST(idx) && noted[idx] > 0 && \
              noted_sink[idx] == j -> \
             NewAttempt(idx) \
          :: else -> skip \
          fi; \
          idx++ \
       :: else -> break \
       od; \
       idx = 0; type = 0; req = 0; key = 0; arg = 0 \
     }
#define R_START(r, i) \
  :: d_step { \
       request_state[r] == QUEUED && link_up[LRP(i)] && !end_unseen_a[LRP(i)] && \
           (((attempt[r] + r) % 2) == i || !link_up[LRP(1 - i)] || end_unseen_a[LRP(1 - i)]) -> \
       source_of[r] = i; request_state[r] = ACTIVE; \
       SEND(RP[i], PREFILL, r, attempt[r] * 4, next_position[r]) \
     }
active proctype Router() {
  do
    R_RECVP(0) R_RECVP(1) R_RECVD(0) R_RECVD(1) R_ENDP(0) R_ENDP(1) R_ENDD(0) R_ENDD(1)
    R_START(0, 0) R_START(0, 1)
#if NUM_REQUESTS>1
    R_START(1, 0) R_START(1, 1)
#endif
  od
}

#define RUPD(j) (link_up[LRD(j)] && !end_unseen_b[LRD(j)])
