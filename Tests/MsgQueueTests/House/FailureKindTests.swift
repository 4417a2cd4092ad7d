import MsgQueue
import Testing

/// The kinds of failures of the engine and of the Swift API.
@Suite struct FailureKindTests {
    /// The engine also has `none`.
    @Test func each_failure_kind_of_the_engine_is_public_with_its_name_and_number() {
        let engine = MsgQueue.FailureKind.allCases.filter { $0 != .none }
        let known = MessageQueue.FailureKind.allCases
        #expect(known.map { "\($0) \($0.rawValue)" } == engine.map { "\($0) \($0.rawValue)" })
        for kind in engine { #expect(MessageQueue.FailureKind(kind)?.engine == kind) }
    }
}
