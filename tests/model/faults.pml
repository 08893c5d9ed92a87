/* Faults, and what must hold when nothing more can happen. */
#define FAULT num_faults < NUM_FAULTS
#define FAULT_DONE \
  num_faults++; type = 0; req = 0; key = 0; arg = 0
#define E_BRP(i) :: d_step { FAULT && link_up[LRP(i)] && IN_RP(i) -> BRP(i); FAULT_DONE }
#define E_BRD(j) :: d_step { FAULT && link_up[LRD(j)] && IN_RD(j) -> BRD(j); FAULT_DONE }
#define E_BPD(i, j) \
  :: d_step { FAULT && link_up[LPD(i, j)] && IN_PD(i, j) -> BPD(i, j); FAULT_DONE }
#define E_UP(l) :: d_step { !link_up[l] && !end_unseen_a[l] && !end_unseen_b[l] -> link_up[l] = 1 }
#define E_UPP(l, i) \
  :: d_step { !link_up[l] && !end_unseen_a[l] && !end_unseen_b[l] && RUNP(i) -> link_up[l] = 1 }
#define CUT_RP(i) if :: link_up[LRP(i)] -> BRP(i) :: else -> skip fi
#define CUT_RD(j) if :: link_up[LRD(j)] -> BRD(j) :: else -> skip fi
#define CUT_PD(i, j) if :: link_up[LPD(i, j)] -> BPD(i, j) :: else -> skip fi
#define CLRPUT(z_) \
  write_busy[z_] = 0; write_req[z_] = 0; write_key[z_] = 0; write_slot[z_] = 0; \
  write_life[z_] = 0; write_release[z_] = 0
#ifdef RDMA
#define CLRPUTP(z_) write_release[z_] = 0
#define CLRPUTD(z_) CLRPUT(z_)
#else
#define CLRPUTP(z_) CLRPUT(z_)
#define CLRPUTD(z_) skip
#endif
#define E_CRASHP(i) \
  :: d_step { \
       FAULT && (IN_RP(i) || IN_PD(i, 0) || IN_PD(i, 1)) -> \
       CUT_RP(i); CUT_PD(i, 0); CUT_PD(i, 1); end_unseen_b[LRP(i)] = 0; \
       end_unseen_a[LPD(i, 0)] = 0; end_unseen_a[LPD(i, 1)] = 0; \
       CLRPUTP(PX(i, 0)); CLRPUTP(PX(i, 1)); ClearTask(i, 0); \
       if :: NUM_REQUESTS > 1 -> ClearTask(i, NUM_REQUESTS - 1) :: else -> skip fi; \
       source_life[i]++; stopped[i] = 0; FAULT_DONE \
     }
#ifdef TCP
#define CLRPEND(j) receive_busy[j] = 0; receive_req[j] = 0; receive_key[j] = 0; receive_slot[j] = 0
#else
#define CLRPEND(j) skip
#endif
#define E_CRASHD(j) \
  :: d_step { \
       FAULT && (IN_RD(j) || IN_PD(0, j) || IN_PD(1, j)) -> \
       CUT_RD(j); CUT_PD(0, j); CUT_PD(1, j); end_unseen_b[LRD(j)] = 0; \
       end_unseen_b[LPD(0, j)] = 0; end_unseen_b[LPD(1, j)] = 0; \
       CLRPUTD(PX(0, j)); CLRPUTD(PX(1, j)); CLRPEND(j); FreeSlot(SI(j, 0)); \
       if :: NUM_BLOCKS > 1 -> FreeSlot(SI(j, NUM_BLOCKS - 1)) :: else -> skip fi; \
       sink_life[j]++; FAULT_DONE \
     }
/* Stopped: 1 = will be resumed, 2 = for ever; meanwhile the others time out and close their
 * connections. */
#ifndef STOP_KIND
#define STOP_KIND 1
#endif
#define E_STOP(i) \
  :: d_step { \
       FAULT && stopped[i] == 0 && !NOSTOP && (IN_RP(i) || IN_PD(i, 0) || IN_PD(i, 1)) -> \
       stopped[i] = STOP_KIND; FAULT_DONE \
     } \
  :: d_step { stopped[i] == 1 -> stopped[i] = 0 } \
  :: d_step { \
       stopped[i] && link_up[LRP(i)] -> \
       BRP(i); type = 0; req = 0; key = 0; arg = 0 \
     } \
  :: d_step { \
       stopped[i] && link_up[LPD(i, 0)] -> \
       BPD(i, 0); type = 0; req = 0; key = 0; arg = 0 \
     } \
  :: d_step { \
       stopped[i] && link_up[LPD(i, 1)] -> \
       BPD(i, 1); type = 0; req = 0; key = 0; arg = 0 \
     }
#ifndef NOSTOP
#define NOSTOP 0
#endif
#define E_EXPIRE(j, q) \
  :: d_step { FAULT && slot_state[q] == S_RESERVED -> Quarantine(j, q); num_faults++ }
#define E_CLIENT(r) \
  :: d_step { \
       FAULT && !client_left && request_state[r] < DONE -> \
       client_left = 1; \
       if \
       :: request_state[r] == ACTIVE -> \
          CancelSource(source_of[r], r, attempt[r] * 4 + 3); \
          if \
          :: noted[r] > 0 -> CancelSink(noted_sink[r], r, attempt[r] * 4 + 3) \
          :: else -> skip \
          fi \
       :: else -> skip \
       fi; \
       request_state[r] = CLIENT_LEFT; attempt[r] = 0; noted[r] = 0; \
       noted_sink[r] = 0; source_of[r] = 0; heard_decode[r] = 0; \
       num_faults++ \
     }
active proctype Env() {
  do
    E_BRP(0) E_BRP(1) E_BRD(0) E_BRD(1) E_BPD(0, 0) E_BPD(0, 1) E_BPD(1, 0) E_BPD(1, 1)
    E_UPP(LRP(0), 0) E_UPP(LRP(1), 1) E_UP(2) E_UP(3) E_UPP(4, 0) E_UPP(5, 0) E_UPP(6, 1)
    E_UPP(7, 1) E_CRASHP(0) E_CRASHP(1) E_CRASHD(0) E_CRASHD(1) E_STOP(0) E_STOP(1)
    E_EXPIRE(0, SI(0, 0)) E_EXPIRE(1, SI(1, 0))
#if NUM_BLOCKS>1
    E_EXPIRE(0, SI(0, 1)) E_EXPIRE(1, SI(1, 1))
#endif
    E_CLIENT(0)
#if NUM_REQUESTS>1
    E_CLIENT(1)
#endif
  od
}
#define QOK(q) \
  (slot_state[q] == S_FREE || (slot_state[q] == S_QUARANTINED && stopped[slot_source[q]] == 2))
#define TOK_(i) \
  (stopped[i] == 2 || (task_state[TI(i, 0)] == 0 && \
      task_state[TI(i, NUM_REQUESTS - 1)] == 0 && !write_busy[PX(i, 0)] && !write_busy[PX(i, 1)]))
#ifdef MUST_BE_DONE
#define ENDED(r) (request_state[r] == DONE || request_state[r] == CLIENT_LEFT)
#else
#define ENDED(r) (request_state[r] >= DONE)
#endif
#ifdef NO_LEAK_CHECK
#define LEAKCHK(c) skip
#else
#define LEAKCHK(c) assert(c)
#endif
active proctype Monitor() {
  timeout ->
  assert(ENDED(0) && ENDED(NUM_REQUESTS - 1));  /* progress */
  LEAKCHK(QOK(SI(0, 0)) && QOK(SI(1, 0)) && QOK(SI(0, NUM_BLOCKS - 1)) &&
      QOK(SI(1, NUM_BLOCKS - 1)));
  /* no leak at D */
  LEAKCHK(TOK_(0) && TOK_(1))  /* no leak at P */
}
