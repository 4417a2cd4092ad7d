import Testing

@testable import MsgQueue

@Suite struct StatusRuleTests {
    private struct Pair: Hashable {
        let from: MessageStatus
        let to: MessageStatus
    }

    @Test func R6_only_these_changes_are_allowed() {
        let allowed: [(MessageStatus, MessageStatus)] = [
            // An attempt begins; a queued message expires or is refused.
            (.queued, .sending), (.queued, .failed),
            // An attempt ends: sent, failed, or queued again.
            (.sending, .sent), (.sending, .failed), (.sending, .queued),
            // A retry on demand, at once or when connected.
            (.failed, .sending), (.failed, .queued),
            // X8: a late success of the latest attempt.
            (.queued, .sent), (.failed, .sent),
            // Receipts.
            (.sent, .delivered), (.sent, .read), (.delivered, .read),
        ]
        let expected = Set(allowed.map { Pair(from: $0.0, to: $0.1) })
        for from in MessageStatus.allCases {
            for to in MessageStatus.allCases {
                let isExpected = expected.contains(Pair(from: from, to: to))
                #expect(StatusRule.allows(from, to) == isExpected, "\(from) to \(to)")
            }
        }
    }

    @Test func A13_one_commit_may_contain_a_success_and_its_receipt() {
        for from in MessageStatus.allCases {
            for to in MessageStatus.allCases {
                let isReceipt = StatusRule.allows(from, .sent) && (to == .delivered || to == .read)
                #expect(StatusRule.allowsInOneCommit(from, to) == (StatusRule.allows(from, to) || isReceipt), "\(from) to \(to)")
            }
        }
    }

    @Test func R6_the_ranks_are_queued_then_sending_and_failed_then_sent_then_delivered_then_read() {
        let order: [[MessageStatus]] = [[.queued], [.sending, .failed], [.sent], [.delivered], [.read]]
        for (place, statuses) in order.enumerated() {
            for status in statuses { #expect(StatusRule.rank(status) == place) }
        }
        #expect(order.joined().count == MessageStatus.allCases.count)
    }

    @Test func R6_a_sent_message_is_never_queued_again() {
        for from in MessageStatus.allCases where StatusRule.rank(from) >= StatusRule.rank(.sent) {
            for to in MessageStatus.allCases where StatusRule.rank(to) <= StatusRule.rank(from) {
                #expect(!StatusRule.allows(from, to), "\(from) to \(to)")
            }
        }
    }

    @Test(arguments: [
        (MessageStatus.delivered, MessageStatus.sent, MessageStatus?.some(.delivered)),
        (.delivered, .delivered, nil),
        (.delivered, .read, nil),
        (.read, .sent, .read),
        (.read, .delivered, .read),
        (.read, .read, nil),
    ])
    func R6_receipts_never_move_a_status_back(receipt: MessageStatus, status: MessageStatus, result: MessageStatus?) throws {
        #expect(try StatusRule.receipt(receipt, on: status) == result)
    }

    @Test func R6_a_receipt_for_an_unsent_message_is_a_conflict() {
        for receipt in [MessageStatus.delivered, .read] {
            for status in [MessageStatus.queued, .sending, .failed] {
                #expect(refusal { _ = try StatusRule.receipt(receipt, on: status) } == .conflict, "\(receipt) on \(status)")
            }
        }
    }

    @Test func R6_only_delivered_and_read_are_receipts() {
        for receipt in [MessageStatus.queued, .sending, .sent, .failed] {
            for status in MessageStatus.allCases {
                #expect(refusal { _ = try StatusRule.receipt(receipt, on: status) } == .invalid, "\(receipt) on \(status)")
            }
        }
    }

    @Test func A9_receipts_in_any_order_end_at_the_furthest() throws {
        var random = SeededGenerator(9)
        for _ in 0..<200 {
            var status = MessageStatus.sent
            var furthest = StatusRule.rank(status)
            for _ in 0..<random.int(1...6) {
                let receipt = random.pick([MessageStatus.delivered, .read])
                furthest = max(furthest, StatusRule.rank(receipt))
                if let next = try StatusRule.receipt(receipt, on: status) {
                    #expect(StatusRule.allows(status, next))
                    status = next
                }
            }
            #expect(StatusRule.rank(status) == furthest)
        }
    }

    /// The error of each action by status; nil: it is allowed.
    @Test func R11_each_action_has_its_statuses_and_a_clear_error_for_the_others() {
        let table: [(UserAction, [MessageStatus: QueueError.Code])] = [
            (.retry, [.queued: .conflict, .sending: .busy, .sent: .conflict, .delivered: .conflict, .read: .conflict]),
            (.sendNow, [.failed: .conflict, .sending: .busy, .sent: .conflict, .delivered: .conflict, .read: .conflict]),
            (.edit, [.sending: .busy, .sent: .conflict, .delivered: .conflict, .read: .conflict]),
            (.delete, [.sending: .busy]),
        ]
        for (action, refusals) in table {
            for status in MessageStatus.allCases {
                #expect(refusal { try StatusRule.check(action, on: status) } == refusals[status], "\(action) on \(status)")
            }
        }
    }

    @Test func statuses_have_the_numbers_of_the_header() {
        let numbers: [MessageStatus: Int32] = [.queued: 0, .sending: 1, .sent: 2, .delivered: 3, .read: 4, .failed: 5]
        for status in MessageStatus.allCases { #expect(status.rawValue == numbers[status]) }
        for status in MessageStatus.allCases {
            #expect(StatusSet.unsent.contains(status) == [.queued, .sending, .failed].contains(status))
            #expect(StatusSet.all.contains(status))
            #expect(status.isUnsent == StatusSet.unsent.contains(status))
        }
    }
}
