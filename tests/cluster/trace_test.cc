// Traces in their three forms, and what is refused.
#include "cluster/trace.h"

#include <gtest/gtest.h>

namespace ebbtide::cluster {
namespace {

std::string ErrorOf(const std::string& text, const std::string& name = "") {
  const auto trace = ParseTrace(text, "t.csv", name);
  return trace ? "" : trace.error().message;
}

TEST(Trace, OurOwnFormIsSortedByArrival) {
  const auto trace =
      ParseTrace("arrival,model,batch,work,gpus,declared\n9,resnet50,64,100,2,\n1,vgg16,32,10,,8GiB\n", "t.csv", "");
  ASSERT_TRUE(trace) << trace.error().message;
  ASSERT_EQ(trace->jobs.size(), 2U);
  EXPECT_EQ(trace->jobs[0].name, "vgg16:32");
  EXPECT_EQ(trace->jobs[0].declared, 8 * kGiB);
  EXPECT_EQ(trace->jobs[1].gpus, 2);
  EXPECT_EQ(trace->jobs[1].iterations, 100);
}

constexpr const char* kCarma =
    "trace,arrival_s,task,model,optimizer,input,batch,epochs,solo_seconds\n"
    "one,0,resnet,torchvision resnet50,adam,3x224x224,32,1,2097\n"
    "two,5,vgg,torchvision vgg16,adam,3x224x224,64,1,2802\n";

TEST(Trace, OfCarmaTheChosenTrace) {
  const auto first = ParseTrace(kCarma, "t.csv", "");
  ASSERT_TRUE(first);
  EXPECT_EQ(first->name, "one");
  ASSERT_EQ(first->jobs.size(), 1U);
  EXPECT_EQ(first->jobs[0].iterations, 40037);  // 1,281,167 images, 32 at a time
  ASSERT_EQ(first->notes.size(), 1U);           // that there is another
  const auto second = ParseTrace(kCarma, "t.csv", "two");
  ASSERT_TRUE(second);
  EXPECT_EQ(second->jobs[0].model, "vgg16");
  EXPECT_EQ(ErrorOf(kCarma, "three"), "--trace three: expected one or two");
}

TEST(Trace, OfOpenbSharesAndTimes) {
  const auto trace = ParseTrace(
      "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
      "a,12000,16384,1,460,,LS,Running,10,110,20\nb,1000,1024,0,0,,BE,Pending,30,40,\n",
      "t.csv", "");
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->jobs[0].gpu_milli, 460);
  EXPECT_EQ(trace->jobs[0].seconds, 90);
  EXPECT_TRUE(trace->jobs[1].never_ran);
}

TEST(Trace, WhatIsRefused) {
  EXPECT_NE(ErrorOf("a,b\n1,2\n").find("expected a header with the columns arrival,model,batch,work"),
            std::string::npos);
  EXPECT_NE(ErrorOf("arrival,model,batch,work\n").find("expected at least one row"), std::string::npos);
  EXPECT_NE(ErrorOf("arrival,model,batch,work\n-1,vgg16,1,1\n").find("line 2"), std::string::npos);
  EXPECT_NE(ErrorOf("arrival,model,batch,work\n1,vgg16,0,1\n").find("batch"), std::string::npos);
  EXPECT_NE(ErrorOf("arrival,model,batch,work\n1,vgg16,1,nan\n").find("work"), std::string::npos);
  EXPECT_NE(ErrorOf("arrival,model,batch,work\n1,,1,1\n").find("model"), std::string::npos);
  EXPECT_NE(ErrorOf("arrival,model,batch,work\n1,vgg16,1,1\n", "x").find("has but one trace"), std::string::npos);
}

TEST(Nodes, AsWritten) {
  const auto groups = ParseNodes("4x8xa100-40gb,1x2xv100-16gb");
  ASSERT_TRUE(groups);
  EXPECT_EQ((*groups)[0].nodes, 4);
  EXPECT_EQ((*groups)[1].gpu, "v100-16gb");
  for (const char* wrong :
       {"", "4", "4x8", "0x8xa100-40gb", "4x65xa100-40gb", "4x8x", "axbxc", "1x1xa,", "9999999x1xa"}) {
    EXPECT_FALSE(ParseNodes(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace ebbtide::cluster
