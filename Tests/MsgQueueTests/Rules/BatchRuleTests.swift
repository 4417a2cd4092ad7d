import Testing

@testable import MsgQueue

@Suite struct BatchRuleTests {
    private func limits(_ maxMessages: Int) -> BatchLimits {
        var limits = BatchLimits()
        limits.maxMessages = maxMessages
        return limits
    }

    @Test(arguments: [
        (100, 0, 1, 100), (100, 0, 64, 100), (10, 0, 64, 10), (100, 1, 1, 0), (100, 60, 64, 4), (2, 60, 64, 2), (100, 100, 64, 0),
    ])
    func B1_a_batch_exceeds_the_slots_only_when_nothing_is_in_flight(most: Int, taken: Int, slots: Int, room: Int) {
        #expect(BatchRule.room(limits(most), taken: taken, slots: slots) == room)
    }

    @Test(arguments: [(100, 0, 100), (100, 1, 100), (100, 2, 0), (100, 3, 0)])
    func B1_with_max_batches_each_batch_may_be_full(most: Int, taken: Int, room: Int) {
        var limits = limits(most)
        limits.maxBatches = 2
        #expect(BatchRule.room(limits, taken: taken, slots: 2) == room)
    }

    @Test(
        arguments: [
            ([], []), ([("a", 1)], [0]), ([("a", 1), ("b", 2), ("a", 3)], [0, 2, 1]),
            ([("b", 1), ("a", 2), ("b", 3), ("c", 4), ("a", 5)], [0, 2, 1, 4, 3]),
            ([("b", 9), ("a", 7), ("b", 3), ("a", 2), ("b", 5)], [2, 4, 0, 3, 1]),
        ] as [([(Name, Int64)], [Int])])
    func B1_the_messages_of_a_conversation_are_next_to_each_other_in_order(messages: [(Name, Int64)], places: [Int]) {
        #expect(BatchRule.grouped(messages.map { (conversation: $0.0, sequence: $0.1) }) == places)
    }

    @Test(
        arguments: [
            ([], []), ([.sent, .sent], [0, 1]), ([.skipped, .sent], [1, 0]), ([.retry, .skipped, .sent, .skipped], [0, 2, 1, 3]),
        ] as [([Outcome.Verdict], [Int])])
    func B1_skipped_messages_are_put_back_last(verdicts: [Outcome.Verdict], places: [Int]) {
        #expect(BatchRule.settlingOrder(verdicts) == places)
    }

    @Test func B1_a_wrong_number_of_outcomes_is_a_failure_of_every_message() {
        #expect(BatchRule.complete([.sent, .offline], count: 2) == [.sent, .offline])
        for wrong in [[], [Outcome.sent], [.sent, .sent, .sent]] {
            let outcomes = BatchRule.complete(wrong, count: 2)
            #expect(outcomes.map(\.verdict) == [.unknown, .unknown])
            #expect(outcomes[0].text == "the transport returned \(wrong.count) outcomes for a batch of 2 messages")
        }
    }

    @Test func B1_a_message_that_was_skipped_without_progress_waits_a_second() {
        #expect(BatchRule.skipDelay(hasProgress: true) == 0)
        #expect(BatchRule.skipDelay(hasProgress: false) == 1_000)
    }

    @Test func B1_the_limits_are_checked() throws {
        func refusal(_ change: (inout BatchLimits) -> Void) -> String? {
            var limits = BatchLimits()
            change(&limits)
            do throws(QueueError) { try limits.validate() } catch { return error.detail }
            return nil
        }
        #expect(refusal { _ in } == nil)
        #expect(refusal { $0.maxMessages = 1_000 } == nil)
        #expect(refusal { $0.maxMessages = 1_001 } == "max messages of a batch must be 1 to 1000, got 1001")
        #expect(refusal { $0.maxMessages = 0 } == "max messages of a batch must be 1 to 1000, got 0")
        #expect(refusal { $0.maxBytes = 0 } == "max bytes of a batch must be 1 to 1073741824, got 0")
        #expect(refusal { $0.linger = -1 } == "linger of a batch, in ms, must be 0 to 60000, got -1")
        #expect(refusal { $0.maxBatches = 64 } == nil)
        #expect(refusal { $0.maxBatches = 65 } == "max batches in flight must be 0 to 64, got 65")
    }
}
