import Testing

@testable import MsgQueue

struct EventTextTests {
    private func status(_ from: MessageStatus?, _ to: MessageStatus, attempt: UInt32 = 0, _ failure: Failure? = nil) -> String? {
        EventText.line(
            .status(StatusChange(id: "a", conversation: "ana", from: from, to: to, attempt: attempt, failure: failure, at: 0)))
    }

    private let failure = Failure(kind: .network, code: 0, text: "refused", at: 0, retryable: true, attempts: 2)

    @Test func M15_a_change_of_status_is_a_line() {
        #expect(status(nil, .queued) == "message a: enqueued in conversation \"ana\"")
        #expect(status(nil, .delivered) == "message a: recorded in conversation \"ana\"")
        #expect(status(.queued, .sending, attempt: 2) == "message a: attempt 2 begins")
        #expect(status(.failed, .sending, attempt: 2) == "message a: attempt 2 begins, was failed")
        #expect(status(.sending, .queued, attempt: 2, failure) == "message a: attempt 2 ended: queued (network): refused")
        #expect(status(.sending, .queued, attempt: 2) == nil, "the line of the attempt itself")
        #expect(status(.queued, .sent, attempt: 1) == "message a: attempt 1 ended late: sent")
        #expect(status(.failed, .sent, attempt: 1) == "message a: attempt 1 ended late: sent, was failed")
        #expect(status(.failed, .queued) == "message a: queued, was failed")
        #expect(status(.queued, .failed, failure) == "message a: failed (network): refused")
        #expect(status(.sent, .read) == "message a: read, was sent")
    }

    @Test func M15_an_attempt_without_a_failure_has_a_line_of_its_own() {
        #expect(EventText.offline(3, of: "a", "no route") == "message a: attempt 3 ended: queued (offline): no route")
        #expect(EventText.offline(3, of: "a", "") == "message a: attempt 3 ended: queued (offline)")
        #expect(EventText.notMade(3, of: "a") == "message a: attempt 3 was not made: queued")
        #expect(EventText.cleared(3, of: "a", nil) == "message a: attempt 3 ended: not sent, and deleted because it was cleared")
    }

    @Test func M15_the_other_events_are_lines() {
        let prompt = Prompt(messages: 1, bytes: 1, oldestAt: 0, conversations: 1, timeout: 1)
        #expect(EventText.line(.prompt(prompt)) == "prompt raised: 1 message, 1 byte, 1 conversation")
        #expect(EventText.line(.promptWithdrawn) == "prompt withdrawn")
        #expect(EventText.line(.connectivity(Network())) == "connectivity: unknown")
        #expect(EventText.line(.paused(conversation: nil, isPaused: true, kind: .unauthorized)) == "paused (unauthorized)")
        #expect(EventText.line(.paused(conversation: "ana", isPaused: false, kind: .none)) == "resumed in conversation \"ana\"")
        #expect(EventText.line(.cleared(conversation: "ana")) == "messages deleted in conversation \"ana\"")
        #expect(EventText.line(.deleted(id: "a", conversation: "")) == "message a: deleted")
        #expect(EventText.line(.replaced(id: "a", by: "b", conversation: "")) == "message a: replaced by message b")
        #expect(EventText.line(.discarded(id: "a", conversation: "", failure: failure)) == "message a: discarded (network): refused")
        #expect(EventText.line(.resync(lostEvents: 1)) == nil)
        #expect(EventText.line(.drainProgress(Report())) == nil)
    }
}
