// Writes the fields of advice.
#include "report/json/advise.h"

namespace ebbtide::report {
namespace {

Json ProposalJson(const jobs::Proposal& proposal) {
  return {{"measures", proposal.measures},
          {"flags", proposal.flags},
          {"fits", proposal.fits},
          {"total_bytes", proposal.total},
          {"safe_bytes", proposal.safe},
          {"saved_bytes", proposal.saved},
          {"time_ratio", proposal.time_ratio},
          {"trains_adapters", proposal.trains_adapters}};
}

}  // namespace

Json AdviseJson(const jobs::AdviseResult& result) {
  Json json = NewResult("advise");
  json["model"] = result.model;
  json["meta"] = result.meta;
  json["gpu"] = result.gpu;
  json["capacity_bytes"] = result.capacity;
  json["fits_already"] = result.fits_already();
  json["total_bytes"] = result.plain.total;
  json["safe_bytes"] = result.plain.safe;
  json["proposals"] = Json::array();
  for (const jobs::Proposal& proposal : result.proposals) json["proposals"].push_back(ProposalJson(proposal));
  json["tried"] = result.tried;
  json["notes"] = result.notes;
  return json;
}

}  // namespace ebbtide::report
