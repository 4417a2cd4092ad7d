import Glibc
import Testing

@testable import MsgQueue

/// Which calls a thread makes before it handles their outcomes.
@Suite struct CallQueueTests {
    private final class Made: @unchecked Sendable {
        var tokens: [UInt64] = []
    }

    private final class Clock: @unchecked Sendable {
        var value: Int64 = 0
    }

    private let mono = Clock()
    private let calls: CallQueue
    private let made = Made()

    init() { calls = CallQueue(mono: { [mono] in mono.value }, chains: true) }

    private func add(_ tokens: ClosedRange<UInt64>, microseconds: useconds_t = 0, isRevocable: Bool = false, _ outcome: Outcome = .sent) {
        for token in tokens {
            let flight = Flight(
                token: token, conversation: "ana", sequence: 1, number: 1, hand: .none, startedAt: Moment(wall: 0, mono: 0), deadline: 1)
            let row = Row(
                sequence: 1, id: "m", conversation: "ana", createdAt: 0, notBefore: 0, expiresAt: 0, unmeteredOnly: false,
                progress: Progress(), bodySize: 0)
            let transport = Registration<Transport>({ [made] delivery in
                made.tokens.append(delivery.token)
                if microseconds > 0 { usleep(microseconds) }
                return outcome
            })
            let delivery = Delivery(
                id: "m", conversation: "ana", body: [], pairs: [], attempt: 1, token: token, createdAt: 0, timeout: 1)
            calls.add(
                CallQueue.Call(
                    attempts: [
                        CallQueue.Attempt(start: Core.Start(flight: flight, row: row, from: .queued, changes: []), delivery: delivery)
                    ], transport: transport, isRevocable: isRevocable))
        }
    }

    /// Makes calls until one thread would handle outcomes. Returns their tokens.
    private func make() -> [UInt64] {
        guard let call = calls.take() else { return [] }
        calls.make(call) { true }
        return calls.takeReturned().map(\.call.batch)
    }

    private func teachQuickness() {
        for token in 1...40 as ClosedRange<UInt64> {
            add(token...token)
            _ = make()
        }
    }

    @Test func the_first_calls_begin_one_by_one() {
        #expect(calls.attemptsPerCommit == 1)
        add(1...3)
        #expect(make() == [1])
        #expect(calls.attemptsPerCommit == 1)
        #expect(make() == [2])
    }

    @Test func one_thread_makes_all_waiting_calls_when_they_are_quick() {
        teachQuickness()
        #expect(calls.attemptsPerCommit > 1)
        add(100...115)
        var tokens: [UInt64] = []
        // A thread that the system interrupts returns earlier.
        while calls.hasWaiting { tokens += make() }
        #expect(tokens == Array(100...115))
    }

    @Test func F11_a_thread_owes_the_calls_that_it_made_until_they_are_handled() {
        teachQuickness()
        calls.attended(calls.owedCalls)
        add(100...103)
        var owed = 0
        while let call = calls.take() { owed += calls.make(call) { true } }
        #expect(owed == 4 && calls.owedCalls == 4)
        calls.attended(1)
        #expect(calls.owedCalls == 3)
        calls.attended(5)
        #expect(calls.owedCalls == 0, "another thread has handled some of them")
        add(200...200)
        if let call = calls.take() { #expect(calls.make(call) { false } == 0 && calls.owedCalls == 0, "it returned in a forked child") }
    }

    @Test func calls_that_take_long_return_one_by_one() {
        teachQuickness()
        add(100...140, microseconds: 300)
        while calls.hasWaiting { _ = make() }
        #expect(calls.attemptsPerCommit == 1)
        add(200...202, microseconds: 300)
        #expect(make() == [200])
        #expect(calls.state.patience == 0)
    }

    @Test func a_transport_that_leaves_its_attempts_pending_is_waited_for() {
        add(1...1, microseconds: 1_000, .pending)
        #expect(make() == [1])
        #expect(calls.attemptsPerCommit > 1 && calls.state.patience > 2)
        calls.forgetTimes()
        #expect(calls.attemptsPerCommit == 1)
    }

    @Test func a_call_that_is_revoked_is_never_made() {
        add(1...3, isRevocable: true)
        add(4...4)
        calls.revoke { $0.token == 2 }
        #expect(calls.takeReturned().map { $0.outcomes == nil } == [true])
        #expect(make() == [1])
        calls.revoke { _ in true }
        #expect(calls.takeReturned().map(\.call.batch) == [3])
        #expect(make() == [4], "an attempt that cannot be withdrawn goes on")
        #expect(!calls.state.hasWork && calls.take() == nil)
        #expect(made.tokens == [1, 4])
    }

    @Test func a_closed_queue_makes_no_call() {
        add(1...1, isRevocable: true)
        add(2...2)
        calls.close()
        #expect(calls.takeReturned().map(\.outcomes) == [nil, [.pending]])
        #expect(calls.take() == nil && made.tokens.isEmpty)
    }

    @Test func no_further_call_is_made_before_a_failure_is_handled() {
        teachQuickness()
        add(100...100, .offline)
        add(101...102)
        #expect(make() == [100])
        #expect(made.tokens.last == 100)
    }

    @Test func the_time_of_an_attempt_counts_from_its_call() throws {
        add(1...2)
        mono.value = 10
        #expect(calls.beginning(of: 1) == 10, "it waits")
        let call = try #require(calls.take())
        mono.value = 15
        #expect(calls.beginning(of: 1) == 10)
        calls.make(call) { true }
        #expect(calls.beginning(of: 1) == 15, "its outcome is handled next")
        _ = calls.takeReturned()
        #expect(calls.beginning(of: 1) == nil)
        #expect(calls.beginning(of: 2) == 15)
    }

    @Test func a_forked_child_makes_no_further_call() throws {
        teachQuickness()
        made.tokens = []
        add(100...102)
        let call = try #require(calls.take())
        calls.make(call) { false }
        #expect(made.tokens == [100])
        calls.detachForkedChild()
        #expect(!calls.state.hasWork)
    }
}
