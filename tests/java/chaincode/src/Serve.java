import java.net.InetSocketAddress;
import org.hyperledger.fabric.contract.ContractRouter;
import org.hyperledger.fabric.shim.ChaincodeServerProperties;
import org.hyperledger.fabric.shim.NettyChaincodeServer;

/** Serves the contracts of the class path as chaincode-as-a-service; Fabric's own variables say where and as what. */
public final class Serve {
    public static void main(String[] args) throws Exception {
        String[] address = System.getenv("CHAINCODE_SERVER_ADDRESS").split(":");
        ChaincodeServerProperties properties = new ChaincodeServerProperties();
        properties.setServerAddress(new InetSocketAddress(address[0], Integer.parseInt(address[1])));
        ContractRouter router = new ContractRouter(new String[] {"-i", System.getenv("CHAINCODE_ID")});
        router.startRouterWithChaincodeServer(new NettyChaincodeServer(router, properties));
    }
}
