// PrefillCore: the public face. After each event that can make room, the next step may start.
#include "common/base/check.h"
#include "prefill_node/core/prefill_impl.h"

namespace tandem::prefill_node {

using handoff::NodeId;

PrefillCore::PrefillCore(const PrefillConfig& config) : impl_(std::make_unique<Impl>(config)) {
  TANDEM_CHECK(config.Validate().ok());
}
PrefillCore::~PrefillCore() = default;

void PrefillCore::RouterConnected(Time, NodeId router, const handoff::Hello& hello, Actions& out) {
  impl_->RouterConnected(router, hello, out);
}
void PrefillCore::RouterLost(Time now, NodeId router, Actions& out) {
  impl_->RouterLost(now, router, out);
  impl_->TryStep(now, out);
}
void PrefillCore::SinkConnected(Time now, NodeId sink, const handoff::Hello& hello, Actions& out) {
  impl_->SinkConnected(now, sink, hello, out);
  impl_->TryStep(now, out);
}
void PrefillCore::SinkLost(Time now, NodeId sink, Actions& out) {
  impl_->SinkLost(now, sink, out);
  impl_->TryStep(now, out);
}
void PrefillCore::OnMessage(Time now, NodeId from, handoff::Message message, Actions& out) {
  impl_->OnMessage(now, from, message, out);
  impl_->TryStep(now, out);
}
void PrefillCore::SetSlice(Duration slice) { impl_->SetSlice(slice); }
void PrefillCore::StepDone(Time now, std::uint64_t step,
                           std::span<const sequence::SampledToken> results, Duration took,
                           Actions& out) {
  impl_->StepDone(now, step, results, took, out);
}
void PrefillCore::StepFailed(Time now, std::uint64_t step, Actions& out) {
  impl_->StepFailed(now, step, out);
}
void PrefillCore::LayerComputed(Time now, std::uint64_t step, kv::Layer layer, Actions& out) {
  impl_->LayerComputed(now, step, layer, out);
}
void PrefillCore::PushFenced(Time now, PushTicket ticket, ByteCount bytes, std::uint64_t checksum,
                             Actions& out) {
  impl_->PushFenced(now, ticket, bytes, checksum, out);
  impl_->TryStep(now, out);
}
void PrefillCore::PushFailed(Time now, PushTicket ticket, Actions& out) {
  impl_->PushFailed(now, ticket, out);
  impl_->TryStep(now, out);
}
void PrefillCore::PushDrained(Time now, handoff::PlacementKey key, Actions& out) {
  impl_->PushDrained(now, key, out);
  impl_->TryStep(now, out);
}
void PrefillCore::ProbeWritten(Time, NodeId sink, std::uint64_t nonce, ByteCount bytes,
                               std::uint64_t checksum, Actions& out) {
  impl_->ProbeWritten(sink, nonce, bytes, checksum, out);
}
void PrefillCore::ProbeFailed(Time now, NodeId sink, std::uint64_t nonce, Actions& out) {
  impl_->ProbeEnded(now, sink, nonce, false, out);
  impl_->TryStep(now, out);
}
void PrefillCore::BeginDrain(Time now, Duration budget, Actions& out) {
  impl_->BeginDrain(now, budget, out);
}
bool PrefillCore::draining() const { return impl_->draining(); }
bool PrefillCore::drained() const { return impl_->drained(); }
void PrefillCore::OnTime(Time now, Actions& out) {
  impl_->OnTime(now, out);
  impl_->TryStep(now, out);
}
scheduler::StepProgress PrefillCore::progress(Time now) const { return impl_->progress(now); }
Time PrefillCore::NextDeadline() const { return impl_->NextDeadline(); }
handoff::Heartbeat PrefillCore::MakeHeartbeat(Time now, NodeId to) {
  return impl_->MakeHeartbeat(now, to);
}
PrefillStats PrefillCore::stats() const { return impl_->stats(); }

}  // namespace tandem::prefill_node
