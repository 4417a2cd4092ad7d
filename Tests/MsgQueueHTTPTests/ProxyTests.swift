import Foundation
import MsgQueue
import MsgQueueHTTP
import Testing

/// Requests through a proxy, which is the server of the tests here.
@Suite(.serialized) struct ProxyTests {
    @Test func B2_a_proxy_gets_the_whole_url_and_its_credentials() async throws {
        // It would say that no server needs a proxy.
        setenv("no_proxy", "*", 1)
        defer { unsetenv("no_proxy") }
        let proxy = try HostileServer { _ in .init(200) }
        defer { proxy.stop() }
        let http = try HTTPTransport(
            url: "http://server.invalid:81/in?a={b}&c=/../", proxy: "http://ana:p%40ss%2F%C3%BC@127.0.0.1:\(proxy.port)")
        #expect(try await ending(of: http).summary == "sent")
        #expect(proxy.requests.map(\.line) == ["POST http://server.invalid:81/in?a={b}&c=/../ HTTP/1.1"])
        #expect(proxy.requests.first?.headers["proxy-authorization"] == "Basic YW5hOnBAc3Mvw7w=")
        #expect(proxy.requests.first?.headers["host"] == "server.invalid:81")
    }

    @Test(arguments: [407, 403, 502, 503, 301, 100])
    func B2_the_answer_of_a_proxy_to_CONNECT_is_not_that_of_the_server(status: Int) async throws {
        let proxy = try HostileServer { _ in .init(status, body: "no") }
        defer { proxy.stop() }
        let http = try HTTPTransport(url: "https://server.invalid/", proxy: "http://127.0.0.1:\(proxy.port)")
        let result = try await ending(of: http)
        #expect(result.isOffline, "\(result.text)")
        #expect(result.text == "the proxy 127.0.0.1:\(proxy.port) answered \(status)")
        #expect((result.summary, result.stop, result.retriesUsed) == ("queued", .offline, 0))
        #expect(proxy.requests.map(\.line) == ["CONNECT server.invalid:443 HTTP/1.1"])
        #expect(proxy.requests.first?.key == "")
    }

    @Test func B2_a_proxy_that_wants_credentials_is_not_the_server() async throws {
        let proxy = try HostileServer { _ in .init(407, body: "no") }
        defer { proxy.stop() }
        let http = try HTTPTransport(url: "http://server.invalid/", proxy: "http://127.0.0.1:\(proxy.port)")
        let result = try await ending(of: http)
        #expect(result.text == "the proxy 127.0.0.1:\(proxy.port) answered 407")
        #expect((result.summary, result.stop, result.retriesUsed) == ("queued", .offline, 0))
        let server = try await ending(of: try HTTPTransport(url: proxy.url))
        #expect(server.summary.hasPrefix("failed rejected 407"), "\(server.summary)")
    }

    @Test func B2_a_proxy_that_breaks_gets_no_message() async throws {
        for answer in ["", "HTTP/1.1 20", "nonsense\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\nno TLS"] {
            let proxy = try HostileServer { _ in .init(raw: answer) }
            let http = try HTTPTransport(url: "https://server.invalid/", proxy: "http://127.0.0.1:\(proxy.port)")
            let result = try await ending(of: http)
            proxy.stop()
            #expect(result.attempt?.arrival == .no, "\(answer): \(result.summary) \(result.text)")
            #expect(proxy.requests.allSatisfy { $0.key.isEmpty })
        }
        let nobody = try await ending(of: try HTTPTransport(url: "https://127.0.0.1:9/", proxy: "http://proxy.invalid:3128"))
        #expect(nobody.isOffline, "\(nobody.text)")
    }

    @Test(arguments: [
        "", "127.0.0.1:1", "https://u:hidden@127.0.0.1:1", "socks5://127.0.0.1:1", "http://u:hidden@proxy", "http://u:hidden@proxy:0",
        "http://u:hidden@proxy:99999", "http://u:hidden@proxy:1/path", "http://u:hidden@proxy:1?a", "http://u:hidden@proxy:1#a",
        "http://a%3Ab:hidden@proxy:1", "http://u:hidden @proxy:1", "http://[::1:hidden",
    ])
    func B2_the_url_of_a_proxy_is_checked(proxy: String) throws {
        do {
            _ = try HTTPTransport(url: "http://127.0.0.1/", proxy: proxy)
            Issue.record("accepted: \(proxy)")
        } catch {
            #expect(error.code == .invalid)
            #expect(!"\(error)".contains("hidden"), "\(error)")
        }
    }

    @Test func B2_a_certificate_that_cannot_be_used_holds_the_queue() async throws {
        let directory = try Directory()
        let path = "\(directory.path)/certificate.pem"
        try "no certificate".write(toFile: path, atomically: true, encoding: .utf8)
        let server = try HostileServer { _ in .init(200) }
        defer { server.stop() }
        let http = try HTTPTransport(url: "https://127.0.0.1:\(server.port)/", certificate: .init(path: path, password: "x"))
        let result = try await ending(of: http)
        #expect(result.isOffline, "\(result.text)")
        #expect((result.summary, result.stop, result.retriesUsed) == ("queued", .offline, 0))
        #expect(server.requests.isEmpty)
    }

    @Test func B2_nobody_is_asked_for_the_password_of_a_key() async throws {
        let directory = try Directory()
        let (path, key) = ("\(directory.path)/certificate.pem", "\(directory.path)/key.pem")
        let openssl = Process()
        openssl.executableURL = URL(fileURLWithPath: "/usr/bin/openssl")
        let (kind, password) = (["-x509", "-newkey", "rsa:2048", "-subj", "/CN=client"], ["-passout", "pass:x"])
        openssl.arguments = ["req"] + kind + password + ["-keyout", key, "-out", path]
        openssl.standardError = FileHandle.nullDevice
        try openssl.run()
        openssl.waitUntilExit()
        #expect(openssl.terminationStatus == 0)
        let server = try HostileServer { _ in .init(200) }
        defer { server.stop() }
        let (input, typed) = (dup(STDIN_FILENO), Pipe())
        try typed.fileHandleForWriting.write(contentsOf: Data("x\n".utf8))
        #expect(dup2(typed.fileHandleForReading.fileDescriptor, STDIN_FILENO) == STDIN_FILENO)
        defer {
            dup2(input, STDIN_FILENO)
            close(input)
        }
        let http = try HTTPTransport(url: "https://127.0.0.1:\(server.port)/", certificate: .init(path: path, keyPath: key))
        let result = try await ending(of: http)
        #expect(result.isOffline, "\(result.text)")
        // What was typed has not been read.
        try typed.fileHandleForWriting.close()
        #expect(typed.fileHandleForReading.readDataToEndOfFile() == Data("x\n".utf8))
    }
}
