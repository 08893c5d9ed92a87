// DecodeCore: the public face. After each event that can make room or work, the next step may
// start.
#include "common/base/check.h"
#include "decode_node/core/decode_impl.h"

namespace tandem::decode_node {

using handoff::NodeId;

DecodeCore::DecodeCore(const DecodeConfig& config) : impl_(std::make_unique<Impl>(config)) {
  TANDEM_CHECK(config.Validate().ok());
}
DecodeCore::~DecodeCore() = default;

void DecodeCore::RouterConnected(Time, NodeId router, const handoff::Hello& hello, Actions&) {
  impl_->RouterConnected(router, hello);
}
void DecodeCore::RouterLost(Time now, NodeId router, Actions& out) {
  impl_->RouterLost(now, router, out);
  impl_->TryStep(now, out);
}
void DecodeCore::SourceConnected(Time now, NodeId source, const handoff::Hello& hello,
                                 handoff::Proof proof, Actions& out) {
  impl_->SourceConnected(now, source, hello, proof, out);
}
void DecodeCore::SourceLost(Time now, NodeId source, Actions& out) {
  impl_->SourceLost(now, source, out);
  impl_->TryStep(now, out);
}
void DecodeCore::OnMessage(Time now, NodeId from, handoff::Message message, Actions& out) {
  impl_->OnMessage(now, from, message, out);
  impl_->TryStep(now, out);
}
void DecodeCore::LayerVerified(Time now, VerifyTicket ticket, bool ok, Actions& out) {
  impl_->LayerVerified(now, ticket, ok, out);
  impl_->TryStep(now, out);
}
void DecodeCore::DataArrived(Time now, handoff::PlacementKey key) { impl_->DataArrived(now, key); }
void DecodeCore::SinkDrained(Time now, handoff::PlacementKey key, Actions& out) {
  impl_->SinkDrained(key);
  impl_->TryStep(now, out);
}
void DecodeCore::WriterGone(Time now, NodeId source, Actions& out) {
  impl_->WriterGone(now, source, out);
  impl_->TryStep(now, out);
}
void DecodeCore::ProbeVerified(Time, NodeId source, std::uint64_t nonce, bool ok, Actions& out) {
  impl_->ProbeVerified(source, nonce, ok, out);
}
void DecodeCore::StepDone(Time now, std::uint64_t step,
                          std::span<const sequence::SampledToken> results, Duration took,
                          Actions& out) {
  impl_->StepDone(now, step, results, took, out);
  impl_->TryStep(now, out);
}
void DecodeCore::StepFailed(Time now, std::uint64_t step, Actions& out) {
  impl_->StepFailed(now, step, out);
  impl_->TryStep(now, out);
}
void DecodeCore::BeginDrain(Time now, Duration budget, Actions& out) {
  impl_->BeginDrain(now, budget, out);
}
bool DecodeCore::draining() const { return impl_->draining(); }
bool DecodeCore::drained() const { return impl_->drained(); }
void DecodeCore::OnTime(Time now, Actions& out) {
  impl_->OnTime(now, out);
  impl_->TryStep(now, out);
}
scheduler::StepProgress DecodeCore::progress(Time now) const { return impl_->progress(now); }
Time DecodeCore::NextDeadline() const { return impl_->NextDeadline(); }
handoff::Heartbeat DecodeCore::MakeHeartbeat(Time now, NodeId to) {
  return impl_->MakeHeartbeat(now, to);
}
DecodeStats DecodeCore::stats() const { return impl_->stats(); }

}  // namespace tandem::decode_node
