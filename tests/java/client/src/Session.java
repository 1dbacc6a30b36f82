import com.google.gson.Gson;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import io.grpc.Grpc;
import io.grpc.ManagedChannel;
import io.grpc.TlsChannelCredentials;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import org.hyperledger.fabric.client.Gateway;
import org.hyperledger.fabric.client.Hash;
import org.hyperledger.fabric.client.Network;
import org.hyperledger.fabric.client.identity.Identities;
import org.hyperledger.fabric.client.identity.Signers;
import org.hyperledger.fabric.client.identity.X509Identity;

/** A network.json, as the ledger's init writes it, and connections of the unmodified client to its peers. */
final class Session {
    final String channel;
    private final Path folder;
    private final JsonObject network;

    /** @param args the description's file and the channel */
    Session(String[] args) throws IOException {
        Path file = Path.of(args[0]);
        folder = file.toAbsolutePath().getParent();
        network = new Gson().fromJson(Files.readString(file), JsonObject.class);
        channel = args[1];
    }

    /** One client at one peer. */
    record Connection(ManagedChannel grpc, Gateway gateway, Network network) implements AutoCloseable {
        @Override
        public void close() {
            gateway.close();
            grpc.shutdownNow();
        }
    }

    Connection open(String mspId) throws IOException, GeneralSecurityException {
        return open(mspId, mspId);
    }

    /** Connect a user of one organisation, who may claim to be of another, to a peer of the former. */
    Connection open(String mspId, String claimed) throws IOException, GeneralSecurityException {
        JsonObject user = find("clients", mspId, "");
        JsonObject peer = find("nodes", mspId, "peer");
        Path roots = path(network.getAsJsonObject("tls_ca").get(mspId).getAsString());
        ManagedChannel grpc = Grpc.newChannelBuilder(
                peer.get("address").getAsString(),
                TlsChannelCredentials.newBuilder().trustManager(roots.toFile()).build()).build();
        var certificate = Identities.readX509Certificate(read(user.get("cert").getAsString()));
        var key = Identities.readPrivateKey(read(user.get("key").getAsString()));
        Gateway gateway = Gateway.newInstance()
                .identity(new X509Identity(claimed, certificate))
                .signer(Signers.newPrivateKeySigner(key))
                .hash(Hash.SHA256)
                .connection(grpc)
                .connect();
        return new Connection(grpc, gateway, gateway.getNetwork(channel));
    }

    private JsonObject find(String list, String mspId, String role) {
        for (JsonElement element : network.getAsJsonArray(list)) {
            JsonObject entry = element.getAsJsonObject();
            if (entry.get("msp_id").getAsString().equals(mspId)
                    && (role.isEmpty() || entry.get("role").getAsString().equals(role))) {
                return entry;
            }
        }
        throw new IllegalArgumentException("no " + role + " of " + mspId + " in " + list);
    }

    private Path path(String name) {
        return folder.resolve(name);
    }

    private String read(String name) throws IOException {
        return Files.readString(path(name));
    }

    /** Print a step, with all that differs from run to run (ids, addresses) taken out. */
    void say(String step, Object what) {
        System.out.println(step + ": " + String.valueOf(what)
                .replace(channel, "CHANNEL")
                .replaceAll("[0-9a-f]{64}", "TXID")
                .replaceAll("(127\\.0\\.0\\.1|localhost|peer\\d[\\w.-]*):\\d+", "ADDRESS"));
    }

    static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }
}
