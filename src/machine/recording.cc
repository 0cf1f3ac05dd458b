#include "recording.h"

#include <utility>

namespace tla {
namespace {

/*! \brief The cores of a launch; descriptions by core type, AIC first. */
std::vector<TimedCore> timed(const LaunchRecord& launch, const std::vector<TimeDesc>* aic,
                             const std::vector<TimeDesc>* aiv) {
  std::vector<TimedCore> cores;
  for (const LaunchRecord::Core& c : launch.cores)
    cores.push_back({c.aic, c.block, &c.record, c.aic ? aic : aiv, &launch.shapes});
  return cores;
}

}  // namespace

Recording::Recording(const ChipParams& chip, const std::vector<GmTensor>& tensors) : chip_(chip), l2_(chip, tensors) {
  for (const GmTensor& t : tensors) tensors_.push_back({t.name, t.bytes, t.scratch});
}

void Recording::take(Machine& machine) {
  LaunchRecord launch;
  for (auto& core : machine.cores) {
    core->record.stream = {};
    core->end_record();
    launch.cores.push_back({core->name(), core->aic, core->block, std::move(core->record)});
  }
  launch.descs = machine.interner.take();
  launch.shapes = machine.shapes.take();
  launches_.push_back(std::move(launch));
}

void Recording::warm() {
  for (const LaunchRecord& launch : launches_) warm_l2(timed(launch, &launch.descs, &launch.descs), l2_);
}

std::vector<Replayed> Recording::replay(const std::vector<Scale>& scales, bool trace, Usage* usage, Poll& poll) const {
  const ChipParams chip = scaled_chip(chip_, scales);
  L2Model l2 = l2_;
  if (usage != nullptr) l2.count_write_backs(&usage->written_back);
  std::vector<Replayed> out;
  for (const LaunchRecord& launch : launches_) {
    std::vector<TimeDesc> aic, aiv;
    if (!scales.empty()) {
      aic = scaled_descs(launch.descs, chip, true, scales);
      aiv = scaled_descs(launch.descs, chip, false, scales);
    }
    const auto cores = scales.empty() ? timed(launch, &launch.descs, &launch.descs) : timed(launch, &aic, &aiv);
    Replayed r;
    if (usage != nullptr) r.causes = std::make_unique<Causes>(chip, cores.size());
    r.time = simulate_time(chip, cores, l2, {trace, r.causes.get(), usage}, poll);
    for (size_t i = 0; trace && i < launch.cores.size(); ++i) {
      append_syncs(launch.descs, chip.num_event_ids, launch.cores[i].record, static_cast<int>(i), r.syncs);
    }
    out.push_back(std::move(r));
  }
  return out;
}

}  // namespace tla
