import Testing

@testable import MsgQueue

/// Events that a subscriber gets together.
@Suite struct HeldEventsTests {
    private func status(_ id: String, _ from: MessageStatus?, _ to: MessageStatus) -> Event {
        .status(StatusChange(id: id, conversation: "ana", from: from, to: to, attempt: 1, failure: nil, at: 5))
    }

    @Test func I3_ids_that_look_the_same_are_different_and_a_prompt_is_joined_with_its_changes() {
        var held = HeldEvents()
        let first = Prompt(messages: 3, bytes: 3, oldestAt: 0, conversations: 1, timeout: 1)
        let last = Prompt(messages: 5, bytes: 5, oldestAt: 0, conversations: 1, timeout: 1)
        held.add(status("caf\u{e9}", nil, .queued), at: 1)
        held.add(.prompt(first), at: 2)
        held.add(status("cafe\u{301}", nil, .queued), at: 3)
        held.add(.promptChanged(last), at: 4)
        held.add(.promptChanged(first), at: 5)
        #expect(held.take().map { EventName($0.event) } == [.status, .status, .prompt])
        held.add(.promptChanged(last), at: 6)
        held.add(.promptChanged(first), at: 7)
        #expect(held.take().map(\.event) == [.promptChanged(first)])
    }

    @Test func I3_events_about_the_same_thing_become_one() {
        var held = HeldEvents()
        #expect(held.isEmpty)
        held.add(status("a", nil, .queued), at: 1)
        held.add(.summary(Counts(), Network()), at: 2)
        held.add(status("b", nil, .queued), at: 3)
        held.add(status("a", .queued, .sending), at: 4)
        held.add(.paused(conversation: nil, isPaused: true, kind: .none), at: 5)
        held.add(status("a", .sending, .sent), at: 6)
        held.add(.summary(Counts(), Network()), at: 7)
        held.add(.paused(conversation: nil, isPaused: false, kind: .none), at: 8)
        let events = held.take()
        #expect(
            events.map(\.event) == [
                status("b", nil, .queued), .paused(conversation: nil, isPaused: true, kind: .none), status("a", nil, .sent),
                .summary(Counts(), Network()), .paused(conversation: nil, isPaused: false, kind: .none),
            ])
        #expect(events.map(\.at) == [3, 5, 6, 7, 8] && held.isEmpty && held.take().isEmpty)
    }

    @Test func I3_many_events_of_messages_become_one_that_says_to_list_again() {
        var held = HeldEvents()
        let most = HeldEvents.mostOfMessages
        held.add(.drainStarted(Counts()), at: 1)
        for number in 0..<most { held.add(status("m\(number)", nil, .queued), at: 2) }
        // No further message.
        for number in 0..<most { held.add(status("m\(number)", .queued, .sending), at: 2) }
        #expect(held.take().count == most + 1)
        held.add(.drainStarted(Counts()), at: 1)
        for number in 0..<(most + 50) { held.add(.deleted(id: "m\(number)", conversation: "ana"), at: 2) }
        held.add(.drainFinished(Report()), at: 3)
        #expect(
            held.take().map(\.event) == [
                .resync(lostEvents: Int64(most + 50)), .drainStarted(Counts()), .drainFinished(Report()),
            ])
    }
}
