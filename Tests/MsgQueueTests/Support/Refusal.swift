import Testing

@testable import MsgQueue

/// The code of the `QueueError` that `body` throws; nil: it throws none.
func refusal(_ body: () throws -> Void) -> QueueError.Code? {
    do {
        try body()
        return nil
    } catch let error as QueueError {
        return error.code
    } catch {
        Issue.record("not a QueueError: \(error)")
        return nil
    }
}

/// The same for what waits.
func refusal(_ body: () async throws -> Void) async -> QueueError.Code? {
    do {
        try await body()
        return nil
    } catch let error as QueueError {
        return error.code
    } catch {
        Issue.record("not a QueueError: \(error)")
        return nil
    }
}
